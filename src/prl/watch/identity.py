"""What a run was configured as, and its environment servers: from the resolved documents, whoever made them."""

from pathlib import Path
from typing import Any

from prl.rundir.configs import AttemptConfigs, source_name
from prl.rundir.locate import RunFiles
from prl.rundir.status import LauncherStatus
from prl.rundir.tree import RunTree
from prl.rundir.untyped import as_object
from prl.watch.facts import EnvServer, RunIdentity
from prl.watch.lines import Lines

_KINDS = (("sft", "sft"), ("orchestrator", "rl"), ("trainer", "rl"), ("rl", "rl"), ("eval", "eval"))
_DOCUMENTS = ("rl", "orchestrator", "trainer", "sft", "eval")

_MAX_NUMBER = 2**62


def identity_facts(
    files: RunFiles, configs: AttemptConfigs, status: LauncherStatus | None, lines: Lines
) -> RunIdentity:
    """What was configured."""
    known = configs.documents
    shared = known.get("rl", {})
    trainer = known.get("trainer") or as_object(shared.get("trainer"))
    orchestrator = known.get("orchestrator") or as_object(shared.get("orchestrator"))
    everything = [shared, orchestrator, trainer, known.get("sft", {}), known.get("eval", {})]
    sources = as_object(orchestrator.get("train")).get("source") or orchestrator.get("env")
    client = as_object(as_object(orchestrator.get("model")).get("client") or orchestrator.get("client"))
    kind = next((kind for name, kind in _KINDS if name in known), "other")
    max_steps = _first_int(*(document.get("max_steps") for document in everything), status and status.max_steps)
    return RunIdentity(
        name=status.run_name if status is not None and status.run_name else files.root.name,
        dir=str(files.root),
        kind=status.kind if status is not None else kind,
        layout=files.layout,
        source=files.resolved.relative_to(files.root).as_posix() if files.resolved else None,
        max_steps=max_steps,
        endless=max_steps is None and any(document.get("max_steps", 0) is None for document in everything),
        model=_model_name(everything),
        envs=[name for source in sources if (name := source_name(source))] if isinstance(sources, list) else [],
        env_startup_timeout=_seconds(orchestrator.get("env_startup_timeout"), 600.0),
        inference_ready_timeout=_seconds(client.get("wait_for_ready_timeout"), 3600.0),
        sync_timeout=_seconds(orchestrator.get("trainer_ready_timeout"), 1200.0),
        batch_timeout=_seconds(trainer.get("batch_timeout"), 3600.0),
        resume_step=_resume_step(lines, everything),
        max_off_policy_steps=_first_int(orchestrator.get("max_off_policy_steps")),
        checkpoint_interval=_first_int(*(as_object(document.get("ckpt")).get("interval") for document in everything)),
    )


def environment_servers(files: RunFiles) -> list[EnvServer]:
    """The environment servers of the attempt, and when each published its address."""
    if files.resolved is None:
        return []
    tree, envs = RunTree(files.root), f"{files.resolved.relative_to(files.root).as_posix()}/envs"
    return [
        _server(tree, f"{envs}/{split}/{name.removesuffix('.json')}")
        for split in tree.names(envs)
        for name in tree.names(f"{envs}/{split}")
        if name.endswith(".json")
    ]


def unread_documents(files: RunFiles, configs: AttemptConfigs) -> list[str]:
    """Documents of the configuration that are there and cannot be read: what they say counts as not said."""
    place = files.resolved.relative_to(files.root).as_posix() if files.resolved is not None else "configs"
    ours = {f"{place}/{name}.json": name for name in _DOCUMENTS}
    split = (note.partition(": ") for note in configs.trouble)
    return [f"configuration: {name} cannot be read ({problem})" for name, _, problem in split if name in ours]


def _server(tree: RunTree, name: str) -> EnvServer:
    address = f"{name}.address"
    published = tree.stat(address)
    return EnvServer(Path(name).name, published.st_mtime if published is not None else None, address)


def _model_name(documents: list[dict[str, Any]]) -> str | None:
    names = (as_object(document.get("model")).get("name") for document in documents)
    return next((name for name in names if isinstance(name, str)), None)


def _resume_step(lines: Lines, documents: list[dict[str, Any]]) -> int | None:
    said = next((mark for mark in lines.marks if mark.kind == "resume"), None)
    if said is not None:
        return int(said.text.split("step ", 1)[1].split()[0].strip(",.:;"))
    return _first_int(*(as_object(document.get("resume")).get("step") for document in documents))


def _first_int(*values: object) -> int | None:
    return next((value for value in values if type(value) is int and abs(value) < _MAX_NUMBER), None)


def _seconds(value: object, default: float) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER
    return float(value) if known else default  # type: ignore[arg-type]

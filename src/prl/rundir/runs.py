"""What a list of runs says about each: kind, model, environments, how far it is, and what is missing or unreadable.

Cheap enough for a thousand runs: names, the ends of two files and a handful of JSON documents. How a run is doing is
the watch side's judgement; here stands only what the run itself says (``phase`` is its launcher's last word, with the
moment it was said). A run whose files are garbage is still a run.
"""

import contextlib
import datetime as dt
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from prl.rundir.configs import Document, attempts_of, first_text, read_documents, source_name
from prl.rundir.evaluations import planned_episodes
from prl.rundir.jobs import find_jobs
from prl.rundir.layout import LAUNCHER_STATUS, METRICS
from prl.rundir.locate import OLD_TRACES, layout_of
from prl.rundir.progress import Counter, RunProgress, read_progress
from prl.rundir.recognition import CHANGING, run_id
from prl.rundir.status import SCHEMA_VERSION, LauncherStatus, StatusError, load_status
from prl.rundir.tree import RunTree
from prl.rundir.untyped import as_object

RL, SFT, EVAL, OTHER = "rl", "sft", "eval", "other"
KINDS = (RL, SFT, EVAL, OTHER)

_DOCUMENTS = ("sft", "orchestrator", "trainer", "rl", "eval")
_KIND_OF = (("sft", SFT), ("orchestrator", RL), ("trainer", RL), ("rl", RL), ("eval", EVAL))
_TRACES = "monitors/file/traces"
_MAX_NAMES = 100
_LOOKED_AT = 1000
"""Attempts from the newest on that are looked at for one that ran or left documents."""


@dataclass(frozen=True)
class RunInfo:
    """A run as a list shows it. None and empty: nothing says."""

    id: str
    """``<name>~<8 hex digits of its real path>``: see :func:`prl.rundir.recognition.run_id`."""
    name: str
    path: Path
    kind: str
    """``rl``, ``sft``, ``eval`` or ``other``."""
    layout: str
    """``A``, ``B`` or ``C`` of the run contract."""
    attempts: tuple[int, ...]
    attempt: int | None
    """The newest attempt that left a log or a word of its launcher; a dry run leaves neither."""
    model: str | None
    dataset: str | None
    """What SFT learns from."""
    train_envs: tuple[str, ...]
    eval_envs: tuple[str, ...]
    max_steps: int | None
    """None: without an end (``endless``), or not known."""
    endless: bool
    """Whether the configuration says that there is no last step."""
    planned_episodes: int | None
    """Episodes that an evaluation is to have."""
    created: float | None
    """When the first attempt began, Unix seconds."""
    progress: RunProgress
    phase: str | None
    """The launcher's last word on the newest attempt."""
    phase_as_of: float | None
    """When it said so."""
    job_id: str | None
    """The newest SLURM job that is known of."""
    changed: float
    """When something in it was last written, Unix seconds (0.0: cannot be told). Not a sign of progress."""
    missing: tuple[str, ...]
    """Of ``configs``, ``logs``, ``metrics`` and ``episodes``, those it does not have."""
    problems: tuple[str, ...]
    """What is there and could not be read, is of a newer form than this reader knows, or leads out of the run."""

    @property
    def step(self) -> int | None:
        """The last finished step; where no trainer tells one, the last shipped."""
        return self.progress.step

    @property
    def last_progress(self) -> float | None:
        """When a counter last advanced, Unix seconds; ``progress.last`` says which."""
        return self.progress.last.time if self.progress.last else None

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON."""
        values = {name: getattr(self, name) for name in _FIELDS}
        values["path"] = str(self.path)
        values["progress"] = {
            name: [counter.value, counter.time, counter.source] if isinstance(counter, Counter) else counter
            for name, counter in vars(self.progress).items()
        }
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any], path: Path) -> "RunInfo":
        """What :meth:`to_json` wrote of the run that now goes by ``path``. Raises KeyError or TypeError on anything
        else."""
        plain: dict[str, Any] = {name: tuple(v) if isinstance(v := values[name], list) else v for name in _FIELDS}
        plain |= {"path": path, "name": path.name}
        counters: dict[str, Any] = {
            name: Counter(*value) if isinstance(value, list) else value for name, value in values["progress"].items()
        }
        plain["progress"] = RunProgress(**counters)
        return cls(**plain)


_FIELDS = tuple(field.name for field in fields(RunInfo))


def read_run(path: Path) -> RunInfo:
    """Everything a list says about the run at ``path``. Raises nothing."""
    tree = RunTree(path)
    tree.entries()  # so that what is not there need not be asked for
    attempts = attempts_of(tree)
    status = _status(tree)
    attempt = _newest(tree, attempts, status)
    if status is not None and attempts and status.attempt != attempt:
        status = None  # an earlier attempt's
    documents = _resolved(tree, attempts)
    environments = {
        number: tree.document(f"configs/attempt_{number}/environment.json")
        for number in dict.fromkeys((*attempts[:1], *attempts[-1:]))
    }
    jobs = find_jobs(tree, attempts, environments)
    progress = read_progress(tree, status)
    kind = _kind(tree, documents, status)
    real = os.path.realpath(path)
    return RunInfo(
        id=run_id(real),
        name=path.name or Path(real).name,
        path=path,
        kind=kind,
        layout=layout_of(tree, attempts),
        attempts=tuple(attempts),
        attempt=attempt,
        model=first_text(as_object(document.get("model")).get("name") for document in _sources(documents)),
        dataset=_dataset(documents),
        train_envs=_environments(tree, attempts, documents, "train"),
        eval_envs=_environments(tree, attempts, documents, "eval"),
        max_steps=(max_steps := _max_steps(documents, status)),
        endless=max_steps is None and any(each.get("max_steps", 0) is None for each in _sources(documents)),
        planned_episodes=planned_episodes(tree) if kind == EVAL else None,
        created=_created(tree, attempts, environments),
        progress=progress,
        phase=status.phase if status else None,
        phase_as_of=status.updated if status else None,
        job_id=jobs[-1].id if jobs else None,
        changed=max((found.st_mtime for name in CHANGING if (found := tree.stat(name))), default=0.0),
        missing=_missing(tree, documents),
        problems=(*tree.trouble, *_newer_forms(status, environments.values(), progress)),
    )


# ---- attempts and what the launcher said


def _status(tree: RunTree) -> LauncherStatus | None:
    if tree.stat(LAUNCHER_STATUS) is None:
        return None
    try:
        return load_status(tree.path(LAUNCHER_STATUS))
    except StatusError as error:
        tree.note(LAUNCHER_STATUS, str(error))
        return None


def _newest(tree: RunTree, attempts: list[int], status: LauncherStatus | None) -> int | None:
    """The attempt a list speaks of: the newest, but for dry runs that came after one that ran."""
    for number in reversed(attempts[-_LOOKED_AT:]):
        if (status is not None and number == status.attempt) or _has_logs(tree, number):
            return number
    return attempts[-1] if attempts else None


def _has_logs(tree: RunTree, attempt: int) -> bool:
    return any(name.endswith(".log") for name in tree.names(f"logs/attempt_{attempt}"))


def _created(tree: RunTree, attempts: list[int], environments: Mapping[int, Document | None]) -> float | None:
    first = f"configs/attempt_{attempts[0]}" if attempts else "configs"
    said = as_object(environments.get(attempts[0])).get("created") if attempts else None
    if isinstance(said, str):
        with contextlib.suppress(ValueError, OverflowError):
            return dt.datetime.fromisoformat(said).timestamp()
    # The command is written once, at the beginning; later attempts have files of their own.
    for name in (f"{first}/command.txt", first):
        found = tree.stat(name)
        if found is not None:
            return found.st_mtime
    return None


# ---- what was configured


def _resolved(tree: RunTree, attempts: list[int]) -> dict[str, Document]:
    """The documents of the newest attempt that left any."""
    for attempt in [*reversed(attempts[-_LOOKED_AT:]), None]:
        documents = read_documents(tree, attempt, _DOCUMENTS)
        if documents:
            return documents
    return {}


def _kind(tree: RunTree, documents: Mapping[str, Document], status: LauncherStatus | None) -> str:
    told = next((kind for name, kind in _KIND_OF if name in documents), None)
    if told is None and status is not None and status.kind in KINDS:
        told = status.kind
    if told is None and tree.stat("monitors/file/eval.json") is not None:
        told = EVAL
    return told or OTHER


def _sources(documents: Mapping[str, Document]) -> list[Document]:
    """The documents that may say what holds for the whole run, the first to say it being right."""
    shared = documents.get("rl", {})
    names = ("orchestrator", "trainer", "sft", "eval")
    nested = [as_object(shared.get(name)) for name in names[:2]]
    return [shared, *(documents.get(name, {}) for name in names), *nested]


def _max_steps(documents: Mapping[str, Document], status: LauncherStatus | None) -> int | None:
    told = [document.get("max_steps") for document in _sources(documents)]
    told.append(status.max_steps if status else None)
    return next((value for value in told if type(value) is int), None)


def _dataset(documents: Mapping[str, Document]) -> str | None:
    data = as_object(documents.get("sft", {}).get("data"))
    return first_text((data.get("name"), data.get("path")))


def _environments(tree: RunTree, attempts: list[int], documents: Mapping[str, Document], split: str) -> tuple[str, ...]:
    """Names of the sources of a split: as configured, else those that have a server."""
    shared = documents.get("rl", {})
    orchestrator = documents.get("orchestrator") or as_object(shared.get("orchestrator"))
    told = as_object(orchestrator.get(split))
    places: list[object] = [told.get("source"), told.get("env")]
    if split == "train":
        places.append(orchestrator.get("env"))  # the oldest form
    else:
        offline = documents.get("eval", {})
        places += [offline.get("source"), as_object(offline.get("eval")).get("source"), offline.get("env")]
    for sources in places:
        names = [source_name(source) for source in sources] if isinstance(sources, list) else []
        if any(names):
            return tuple(dict.fromkeys(name for name in names[:_MAX_NAMES] if name))
    resolved = f"configs/attempt_{attempts[-1]}/resolved" if attempts else "configs/resolved"
    files = tree.names(f"{resolved}/envs/{split}")
    return tuple(name.removesuffix(".json") for name in files[:_MAX_NAMES] if name.endswith(".json"))


# ---- what is missing or not understood


def _missing(tree: RunTree, documents: Mapping[str, Document]) -> tuple[str, ...]:
    there = {
        "configs": bool(documents),
        "logs": tree.is_dir("logs"),
        "metrics": any(tree.stat(name) is not None for name in METRICS),
        "episodes": any(tree.stat(name) is not None for name in (_TRACES, *OLD_TRACES)),
    }
    return tuple(name for name, found in there.items() if not found)


def _newer_forms(
    status: LauncherStatus | None, environments: Iterable[Document | None], progress: RunProgress
) -> list[str]:
    """Notes on files that say they have a form that was made after this reader."""
    said = {
        LAUNCHER_STATUS: status.schema_version if status else None,
        "environment.json": max((_version(document) for document in environments), default=0),
        "metrics.jsonl": progress.schema_version,
    }
    return [
        f"{name}: schema version {version}, this reader knows {SCHEMA_VERSION}: read as far as it is understood"
        for name, version in said.items()
        if version is not None and version > SCHEMA_VERSION
    ]


def _version(document: Document | None) -> int:
    version = (document or {}).get("schema_version")
    return version if type(version) is int else 0

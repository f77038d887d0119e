"""What a run evaluates: how many episodes it planned, earlier attempts at it, and where a platform shows them.

An offline evaluation that is resumed renames its file monitor's directory to ``monitors/file.attempt_K`` and starts a
new one; what the earlier attempts recorded stays readable there. Left out: the episodes themselves, which their own
readers take from the directories named here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prl.rundir.configs import Document
from prl.rundir.layout import numbered
from prl.rundir.tree import RunTree
from prl.rundir.untyped import as_object

Plan = dict[str, dict[int, int]]
"""Expected episodes by environment and step."""

MONITOR = "monitors/file"
_PLANS = ("plan.json", "eval_plan.json")
_MAX_LINKS = 200


@dataclass(frozen=True)
class Recording:
    """What one file monitor recorded."""

    path: Path
    """Its directory, with ``metrics.jsonl`` and ``traces/``."""
    attempt: int | None
    """The attempt of an archive. None: the newest, which may still grow."""
    plan: Plan
    plan_source: str | None
    """The plan's file, a name below the run directory. None: there is no plan."""
    config: Document | None
    """What an offline evaluation was given (``eval.json``)."""
    sealed: bool
    """Whether the stream of episodes exists and all of its chunks are sealed: then nothing more is coming. An
    evaluation that does not compress is never known to be finished."""

    @property
    def expected(self) -> int | None:
        """Episodes of the plan; None without one."""
        return _count(self.plan) if self.plan_source else None


@dataclass(frozen=True)
class PlatformLink:
    """A page of a platform about the run or one of its evaluations."""

    name: str
    """Environment of an evaluation; empty for the run."""
    id: str | None
    url: str | None
    """None unless it is an address of the web."""
    step: int | None


@dataclass(frozen=True)
class Evaluations:
    """What a run evaluates and evaluated."""

    current: Recording
    archives: tuple[Recording, ...]
    """Of earlier attempts, the oldest first."""
    platform: tuple[PlatformLink, ...]
    trouble: tuple[str, ...]


def read_evaluations(root: Path) -> Evaluations:
    """The evaluations of the run at ``root``. Raises nothing."""
    tree = RunTree(root)
    archives = sorted(
        (attempt, name) for name in tree.names("monitors") if (attempt := numbered(name, "file.attempt_")) is not None
    )
    return Evaluations(
        current=_recording(tree, MONITOR, None),
        archives=tuple(_recording(tree, f"monitors/{name}", attempt) for attempt, name in archives),
        platform=_platform(tree),
        trouble=tuple(tree.trouble),
    )


def planned_episodes(tree: RunTree) -> int | None:
    """How many episodes the newest recording of a run is to have; None where no plan says."""
    _, plan = _read_plan(tree, MONITOR)
    return None if plan is None else _count(plan)


def _recording(tree: RunTree, directory: str, attempt: int | None) -> Recording:
    source, plan = _read_plan(tree, directory)
    chunks = [name for name in tree.names(f"{directory}/traces/stream") if ".jsonl" in name]
    return Recording(
        path=tree.path(directory),
        attempt=attempt,
        plan=plan or {},
        plan_source=source if plan is not None else None,
        config=tree.document(f"{directory}/eval.json"),
        sealed=bool(chunks) and all(name.endswith(".zst") for name in chunks),
    )


def _read_plan(tree: RunTree, directory: str) -> tuple[str | None, Plan | None]:
    source = next((f"{directory}/{name}" for name in _PLANS if tree.stat(f"{directory}/{name}")), None)
    document = tree.document(source) if source else None
    return source, None if document is None else _plan(document)


def _count(plan: Plan) -> int:
    return sum(sum(steps.values()) for steps in plan.values())


def _plan(document: Document) -> Plan:
    """What of a plan is one: environments with numbers of episodes by step."""
    plan: Plan = {}
    for env, steps in document.items():
        if isinstance(steps, dict):
            known = {numbered(step, ""): count for step, count in steps.items() if type(count) is int and count >= 0}
            plan[env] = {step: count for step, count in known.items() if step is not None}
    return plan


def _platform(tree: RunTree) -> tuple[PlatformLink, ...]:
    document = tree.document("monitors/prime/run.json")
    if document is None:
        return ()
    links = [_link("", document, document.get("id") or document.get("run_id"))]
    for name, entry in as_object(document.get("evaluations")).items():
        if isinstance(entry, dict):
            links.append(_link(name, entry, entry.get("id")))
    return tuple(link for link in links if link.id or link.url)[:_MAX_LINKS]


def _link(name: str, entry: dict[str, Any], identifier: object) -> PlatformLink:
    step = entry.get("step")
    return PlatformLink(
        name=name,
        id=identifier if isinstance(identifier, str) else None,
        url=web_address(entry.get("url")),
        step=step if type(step) is int else None,
    )


def web_address(value: object) -> str | None:
    """``value`` when it is an address that a page may link to: http or https, with a host, and nothing unprintable."""
    if not isinstance(value, str) or not value.isprintable() or " " in value:
        return None
    try:
        parts = urlsplit(value)
    except ValueError:
        return None
    return value if parts.scheme in ("http", "https") and parts.hostname else None

"""Where the files of a run lie, whichever of the contract's three layouts it was written in.

Layout C keeps attempts under ``configs/`` and ``logs/``; B has ``configs/resolved/`` without attempts and its metrics
under ``monitors/file/``; A has its resolved JSON directly in ``configs/`` and ``metrics.jsonl`` at the top. The layout
is detected, never asked for. What is in the directory of the episodes, its readers find out.
"""

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prl.rundir.configs import attempts_of
from prl.rundir.layout import METRICS, RunLayout, step_number
from prl.rundir.logs.components import LogFile, list_logs
from prl.rundir.regular import is_file
from prl.rundir.tree import RunTree

MAX_LOGS = 200
"""Log files listed of one attempt. A run with more environments and ranks than that is cut and says so."""

OLD_TRACES = ("rollouts", "traces.jsonl")
OLD_SIGNS = ("metrics.jsonl", *OLD_TRACES)
"""What the oldest layout has at the top of a run."""
_WITHOUT_TRACES = "train_rollouts.jsonl"


@dataclass(frozen=True)
class RunFiles:
    """What exists of one attempt of a run."""

    root: Path
    layout: str
    """``A``, ``B`` or ``C``."""
    attempts: tuple[int, ...]
    attempt: int | None
    """The attempt located here. None: the layout has none."""
    configs: Path | None
    """Directory with ``command.txt``."""
    resolved: Path | None
    """Directory with the resolved JSON of each component."""
    logs: tuple[LogFile, ...]
    logs_left_out: int
    metrics: Path | None
    """None where there is no such file; what cannot be read of one is for its reader to say."""
    trouble: tuple[str, ...] = ()
    """What is there and could not be looked into: directories, links that leave the run."""


def locate(root: Path, attempt: int | None = None) -> RunFiles:
    """The files of ``attempt`` (default: the newest) of the run at ``root``. Raises nothing; absent parts are None."""
    tree = RunTree(root)
    attempts = attempts_of(tree)
    chosen = attempt if attempt is not None else (attempts[-1] if attempts else None)
    inner = f"/attempt_{chosen}" if chosen is not None else ""
    configs = f"configs{inner}"
    logs = list_logs(root, f"logs{inner}", MAX_LOGS)
    places = [f"{configs}/resolved"] if inner else ["configs/resolved", "configs"]
    resolved = next((name for name in places if _has_json(tree, name)), None)
    metrics = metrics_path(root)
    return RunFiles(
        root=root,
        layout=layout_of(tree, attempts),
        attempts=tuple(attempts),
        attempt=chosen,
        configs=root / configs if tree.is_dir(configs) else None,
        resolved=root / resolved if resolved is not None else None,
        logs=logs.files,
        logs_left_out=logs.left_out,
        metrics=metrics if is_file(metrics) else None,
        trouble=tuple(dict.fromkeys((*tree.trouble, *logs.trouble))),
    )


def layout_of(tree: RunTree, attempts: Sequence[int]) -> str:
    """``A``, ``B`` or ``C``: by attempts, by ``configs/resolved/``, by what only the oldest has at the top."""
    if attempts:
        return "C"
    if tree.is_dir("configs/resolved"):
        return "B"
    flat = any(name.endswith(".json") for name in tree.names("configs"))
    return "A" if flat or not set(OLD_SIGNS).isdisjoint(tree.names()) else "B"


def metrics_path(root: Path) -> Path:
    """Where the metrics of the run at ``root`` lie; where a new run would have them when it has none."""
    return next((path for name in METRICS if is_file(path := root / name)), root / METRICS[0])


def traces_path(root: Path) -> Path:
    """Where the episodes of the run at ``root`` lie: ``monitors/file/traces``, in the oldest layout ``root`` itself."""
    traces = RunLayout(root).traces
    is_old = not _exists(traces) and any(_exists(root / name) for name in OLD_TRACES)
    return root if is_old else traces


def list_attempts(root: Path) -> list[int]:
    """Numbers of the attempts that left configurations or logs, ascending."""
    return attempts_of(RunTree(root))


def has_logs(root: Path, attempt: int) -> bool:
    """Whether an attempt wrote any log. A dry run makes an attempt and writes none."""
    tree, directory = RunTree(root), f"logs/attempt_{attempt}"
    logs = (tree.stat(f"{directory}/{name}") for name in tree.names(directory) if name.endswith(".log"))
    return any(about is not None and stat.S_ISREG(about.st_mode) and about.st_size > 0 for about in logs)


def _has_json(tree: RunTree, directory: str) -> bool:
    return any(name.endswith(".json") for name in tree.names(directory))


def _exists(path: Path) -> bool:
    """Whether there is anything by this name. What cannot be looked into is there."""
    try:
        return path.exists()
    except OSError:
        return True


def unread_rollouts(root: Path) -> str | None:
    """What to say of ``rollouts/step_N/train_rollouts.jsonl``, in which the first releases left rewards alone, without
    a trace: no episode is in there. None: there is no such file."""
    tree = RunTree(root)
    steps = (name for name in tree.names("rollouts") if step_number(Path(name)) is not None)
    found = next((name for step in steps if tree.stat(name := f"rollouts/{step}/{_WITHOUT_TRACES}") is not None), None)
    return f"{found}: of a form that was given up before traces were kept: it is not read" if found else None

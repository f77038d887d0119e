"""Where the files of a run lie, whichever of the contract's three layouts it was written in.

Layout C keeps attempts under ``configs/`` and ``logs/``; B has ``configs/resolved/`` without attempts and its metrics
under ``monitors/file/``; A has its resolved JSON directly in ``configs/`` and ``metrics.jsonl`` at the top. The layout
is detected, never asked for. Only configurations, logs and metrics are located: episodes have readers of their own.
"""

from dataclasses import dataclass
from pathlib import Path

from prl.rundir.layout import RunLayout, attempt_number
from prl.rundir.logs.components import LogFile, list_logs

MAX_LOGS = 200
"""Log files listed of one attempt. A run with more environments and ranks than that is cut and says so."""


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


def locate(root: Path, attempt: int | None = None) -> RunFiles:
    """The files of ``attempt`` (default: the newest) of the run at ``root``. Raises nothing; absent parts are None."""
    paths = RunLayout(root)
    attempts = list_attempts(root)
    chosen = attempt if attempt is not None else (attempts[-1] if attempts else None)
    configs = paths.attempt_configs(chosen) if chosen is not None else paths.configs
    log_dir = paths.attempt_logs(chosen) if chosen is not None else paths.logs
    resolved = next((path for path in (configs / "resolved", configs) if any(path.glob("*.json"))), None)
    logs = list_logs(root, log_dir.relative_to(root).as_posix(), MAX_LOGS)
    old = root / "metrics.jsonl"
    metrics = next((path for path in (paths.metrics, old) if path.is_file()), None)
    flat = metrics == old or (resolved is not None and resolved == paths.configs)
    return RunFiles(
        root=root,
        layout="C" if attempts else "A" if flat else "B",
        attempts=tuple(attempts),
        attempt=chosen,
        configs=configs if configs.is_dir() else None,
        resolved=resolved,
        logs=logs.files,
        logs_left_out=logs.left_out,
        metrics=metrics,
    )


def list_attempts(root: Path) -> list[int]:
    """Numbers of the attempts that left configurations or logs, ascending."""
    found: set[int] = set()
    for parent in (root / "configs", root / "logs"):
        try:
            found |= {number for path in parent.iterdir() if (number := attempt_number(path)) is not None}
        except OSError:
            continue
    return sorted(found)


def has_logs(root: Path, attempt: int) -> bool:
    """Whether an attempt wrote any log. A dry run makes an attempt and writes none."""
    return any(path.is_file() and path.stat().st_size for path in RunLayout(root).attempt_logs(attempt).glob("*.log"))

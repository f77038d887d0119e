"""Which directories are runs, and which one somebody means: by path, name, unique prefix, or simply the newest.

Only names and modification times are looked at, so that a listing of many runs costs a few calls each. Deciding how a
run is doing is left to the watch side.
"""

import os
from pathlib import Path

_SIGNS = ("configs", "logs", "monitors")
_OLD_SIGNS = ("metrics.jsonl", "rollouts", "traces.jsonl")
"""What runs of older layouts have at their top."""
_CHANGING = ("monitors/file/metrics.jsonl", "launcher/status.json", "logs/latest", "logs", "metrics.jsonl", ".")
_SHOWN = 10


class RunNotFoundError(LookupError):
    """No run is meant by what was given, or several are. The message says what exists."""


def default_output_dir() -> Path:
    """``$PRL_OUTPUT_DIR`` when set, else ``outputs``."""
    return Path(os.environ.get("PRL_OUTPUT_DIR") or "outputs")


def is_run(path: Path) -> bool:
    """Whether a directory is a run: it has configs, logs or monitors (or what older layouts had)."""
    return any((path / name).is_dir() for name in _SIGNS) or any((path / name).exists() for name in _OLD_SIGNS)


def list_runs(output_dir: Path) -> list[Path]:
    """The runs directly below ``output_dir``, the most recently changed first. What vanishes meanwhile is left out."""
    try:
        entries = [path for path in output_dir.iterdir() if is_run(path)]
    except OSError:
        return []
    return sorted(entries, key=lambda path: (last_change(path), path.name), reverse=True)


def last_change(run_dir: Path) -> float:
    """When a run last wrote something, Unix seconds (0.0 when nothing can be read). Not a sign of progress."""
    times = []
    for name in _CHANGING:
        try:
            times.append((run_dir / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def find_run(target: str | None, output_dir: Path | None = None) -> Path:
    """The run that ``target`` means: a path, the name of a run below ``output_dir`` or a unique prefix of one.

    None means the most recently changed run below ``output_dir`` (default: :func:`default_output_dir`). Raises
    :class:`RunNotFoundError`.
    """
    below = default_output_dir() if output_dir is None else output_dir
    if target is None:
        runs = list_runs(below)
        if not runs:
            raise RunNotFoundError(f"no run below {below}/: start one, or name a run directory or set PRL_OUTPUT_DIR")
        return runs[0]
    for path in (Path(target), below / target) if target else ():
        if is_run(path):
            return path
    runs = list_runs(below)
    matches = [path for path in runs if target and path.name.startswith(target)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise RunNotFoundError(f"{target!r} is the beginning of {len(matches)} runs below {below}/: {_names(matches)}")
    if target and Path(target).is_dir():
        inside = list_runs(Path(target))
        hint = f"; it holds the runs {_names(inside)}" if inside else " (no configs, logs or monitors in it)"
        raise RunNotFoundError(f"{target} is not a run directory{hint}")
    known = f"there are {_names(runs)}" if runs else "there is no run at all"
    raise RunNotFoundError(f"no run {target!r}: not a run directory, and below {below}/ {known}")


def _names(runs: list[Path]) -> str:
    names = ", ".join(path.name for path in runs[:_SHOWN])
    return names + (f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else "")

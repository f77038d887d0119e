"""Which directories are runs, and which one somebody means: by path, id, name, unique prefix, or simply the newest.

A run is a directory that has what runs have, named itself or lying directly in an output directory (a link to a run
elsewhere counts: somebody put it there). :func:`find_run` looks at names and modification times alone. :func:`discover`
reads every run (:mod:`prl.rundir.runs`) and remembers what it read by what it looked at, so that runs in which nothing
happened cost a few calls each. How a run is doing is left to the watch side.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prl.rundir.recognition import CHANGING, has_signs, is_run, run_id

if TYPE_CHECKING:
    from prl.rundir.runs import RunInfo

_SHOWN = 10
_ONE_AT_A_TIME = threading.Lock()
"""What is remembered is shared by the threads of a process."""


class RunNotFoundError(LookupError):
    """No run is meant by what was given, or several are. The message says what exists."""


@dataclass(frozen=True)
class RunList:
    """The runs below some directories at one moment."""

    dirs: tuple[Path, ...]
    """Where was looked: output directories, or runs themselves."""
    runs: "tuple[RunInfo, ...]"
    """The most recently changed first."""
    absent: tuple[Path, ...]
    """Of ``dirs``, those that do not exist."""
    problems: tuple[str, ...]
    """Directories and entries that could not be looked at, with the reason. None of them is in ``runs``."""
    as_of: float
    """Unix seconds."""


def default_output_dir() -> Path:
    """``$PRL_OUTPUT_DIR`` when set, else ``outputs``."""
    return Path(os.environ.get("PRL_OUTPUT_DIR") or "outputs")


def discover(
    dirs: Sequence[Path] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_found: "Callable[[RunInfo], None] | None" = None,
) -> RunList:
    """The runs in ``dirs`` (default: :func:`default_output_dir`), each once, by however many names. Raises nothing.

    A directory of ``dirs`` that is a run itself counts as one; else what lies directly in it is looked at.
    ``on_progress`` is called with the number of entries looked at and of all of them, after each run that had to be
    read; ``on_found`` with each run as soon as it is known, in no order.
    """
    from prl.rundir.remembered import Remembered

    where = tuple(dirs) if dirs is not None else (default_output_dir(),)
    problems: list[str] = []
    absent = tuple(path for path in where if not os.path.lexists(path))
    groups = [_candidates(path, problems) for path in where if path not in absent]
    total, done = sum(len(names) for _, names in groups), 0
    runs: dict[str, RunInfo] = {}
    with _ONE_AT_A_TIME:
        for parent, names in groups:
            memory = Remembered.of(parent)
            for name in names:
                done += 1
                try:
                    info, was_read = memory.look(name)
                except OSError as error:
                    problems.append(f"{parent / name}: {error.strerror or error}")
                    continue
                if info is not None and runs.setdefault(info.id, info) is info and on_found is not None:
                    on_found(info)
                if was_read and on_progress is not None:
                    on_progress(done, total)
            memory.keep(names)
    newest = sorted(runs.values(), key=lambda run: (run.changed, run.name), reverse=True)
    return RunList(where, tuple(newest), absent, tuple(problems), time.time())


def list_runs(output_dir: Path) -> list[Path]:
    """The runs directly below ``output_dir``, the most recently changed first. What vanishes meanwhile is left out."""
    return sorted(_runs_in(output_dir), key=_by_change, reverse=True)


def last_change(run_dir: Path) -> float:
    """When a run last wrote something, Unix seconds (0.0 when nothing can be read). Not a sign of progress."""
    base = os.fspath(run_dir)
    newest = 0.0
    for name in CHANGING:
        with contextlib.suppress(OSError):
            newest = max(newest, os.stat(f"{base}/{name}").st_mtime)  # noqa: PTH116 (a Path costs as much as the call)
    return newest


def find_run(target: str | None, output_dir: Path | Sequence[Path] | None = None) -> Path:
    """The run that ``target`` means: a path, an id (:func:`prl.rundir.recognition.run_id`), the name of a run below
    ``output_dir`` or a unique prefix of one.

    None means the most recently changed run below ``output_dir`` (one directory or several; default:
    :func:`default_output_dir`). Raises :class:`RunNotFoundError`.
    """
    below = [default_output_dir()] if output_dir is None else output_dir
    where = [below] if isinstance(below, Path) else list(below)
    told = ", ".join(f"{path}/" for path in where)
    if target is None:
        newest = max(_runs(where), key=_by_change, default=None)
        if newest is None:
            raise RunNotFoundError(f"no run below {told}: start one, or name a run directory or set PRL_OUTPUT_DIR")
        return newest
    named = _named(target, where)
    if named:
        return _only(target, named, told)
    runs = _all_runs(where)
    matches = [path for path in runs if target and _goes_by(path, target)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise RunNotFoundError(f"{target!r} is the beginning of {len(matches)} runs below {told}: {_names(matches)}")
    if target and Path(target).is_dir():
        _look_into(Path(target))
        inside = list_runs(Path(target))
        hint = f"; it holds the runs {_names(inside)}" if inside else " (no configs, logs or monitors in it)"
        raise RunNotFoundError(f"{target} is not a run directory{hint}")
    known = f"there are {_names(runs)}" if runs else "there is no run at all"
    raise RunNotFoundError(f"no run {target!r}: not a run directory, and below {told} {known}")


def _look_into(directory: Path) -> None:
    """Raises RunNotFoundError where nobody can tell whether a directory is a run."""
    try:
        has_signs(directory)
        next(directory.iterdir(), None)
    except OSError as error:
        raise RunNotFoundError(f"{directory} cannot be looked into: {error.strerror or error}") from None


def _named(target: str, where: Sequence[Path]) -> list[Path]:
    """The runs with exactly this path or name: a path is one, and wins."""
    if not target:
        return []
    if is_run(Path(target)):
        return [Path(target)]
    found = [path for path in (below / target for below in where) if is_run(path)]
    return found + [below for below in where if below.name == target and is_run(below) and below not in found]


def _only(target: str, runs: list[Path], told: str) -> Path:
    distinct = {os.path.realpath(path): path for path in reversed(runs)}
    if len(distinct) > 1:
        ids = ", ".join(run_id(real) for real in distinct)
        raise RunNotFoundError(f"{len(distinct)} runs below {told} are named {target!r}: give one of the ids {ids}")
    return runs[0]


def _goes_by(path: Path, target: str) -> bool:
    """Whether a run is meant by the beginning of its name or by its id."""
    return path.name.startswith(target) or ("~" in target and run_id(os.path.realpath(path)) == target)


def _all_runs(where: Sequence[Path]) -> list[Path]:
    """The runs of all directories, the most recently changed first, each once."""
    found = {os.path.realpath(path): path for path in sorted(_runs(where), key=_by_change)}
    return sorted(found.values(), key=_by_change, reverse=True)


def _runs(where: Iterable[Path]) -> Iterator[Path]:
    """The runs of all directories by whatever names they have there."""
    for directory in where:
        yield from [directory] if is_run(directory) else _runs_in(directory)


def _runs_in(directory: Path) -> Iterator[Path]:
    return (path for name in _entries(directory, []) if is_run(path := directory / name))


def _by_change(run: Path) -> tuple[float, str]:
    return last_change(run), run.name


def _candidates(directory: Path, problems: list[str]) -> tuple[Path, list[str]]:
    """What may be runs, as a directory and names in it: what lies in ``directory``, or itself when it is a run."""
    if not is_run(directory):
        return directory, _entries(directory, problems)
    named = directory if directory.name not in ("", "..") else directory.resolve()
    return named.parent, [named.name]


def _entries(directory: Path, problems: list[str]) -> list[str]:
    """Names of the directories in a directory, and of links to some. Hidden ones are none of a user's runs."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.name[0] != "." and _may_be_run(entry, problems)]
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            problems.append(f"{directory}: {error.strerror or error}")
        return []


def _may_be_run(entry: os.DirEntry[str], problems: list[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:  # a link loop, or a disk that does not answer
        problems.append(f"{entry.path}: {error.strerror or error}")
        return False


def _names(runs: list[Path]) -> str:
    names = ", ".join(path.name for path in runs[:_SHOWN])
    return names + (f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else "")

"""Signs of change in a run's files, cheap enough to be asked for by every tab every second.

Sizes and times tell that something was written, no more: they say nothing about how the run does.
"""

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

from prl.rundir.locate import traces_path

_MAX_ENTRIES = 2000


def live_sign(run: Path) -> str:
    """Changes when a rollout in flight does."""
    live = traces_path(run) / "live"
    return _digest([*_listed(live), *_listed(live / "pending")])


def episodes_sign(run: Path) -> str:
    """Changes when an episode arrives, or something becomes known of one."""
    traces = traces_path(run)
    return _digest([*_listed(traces), *_listed(traces / "annotations")])


def logs_sign(run: Path) -> str:
    """Changes when a line is written to a log of the newest attempt."""
    newest = run / "logs" / "latest"
    return _digest(_below(newest if newest.is_dir() else run / "logs", 3))


def configs_sign(run: Path) -> str:
    """Changes when a configuration is written, and when an attempt begins."""
    return _digest([*_below(run / "configs", 5), *_listed(run / "logs")])


def metrics_sign(metrics: Path) -> str:
    """Changes when a row is written."""
    try:
        found = metrics.stat()
    except OSError:
        return "absent"
    return _digest([f"{found.st_ino}.{found.st_size}.{found.st_mtime_ns}"])


def _below(directory: Path, depth: int) -> Iterator[str]:
    """The entries of a directory and of those in it, so many deep at most."""
    level = [directory]
    for _ in range(depth):
        inner = []
        for one in level:
            yield from _listed(one)
            inner += _directories(one)
        level = inner[:_MAX_ENTRIES]


def _listed(directory: Path) -> list[str]:
    """What stands in a directory, with sizes and times. What vanishes meanwhile is left out."""
    told = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    found = entry.stat()
                except OSError:
                    continue
                # The time of change: it also moves when a file is replaced by an older one, or may be read at last.
                told.append(f"{entry.name}.{found.st_size}.{found.st_ctime_ns}")
                if len(told) == _MAX_ENTRIES:
                    break
    except OSError:
        return []
    return sorted(told)


def _directories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _digest(told: Iterable[str]) -> str:
    return blake2b("\n".join(told).encode(errors="surrogateescape"), digest_size=8).hexdigest()

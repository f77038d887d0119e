"""Which directories are runs, what each is called, and what of it changes: told by names alone, nothing is read."""

import errno
import os
import stat
from pathlib import Path

from prl.rundir.layout import LAUNCHER_STATUS, METRICS
from prl.rundir.locate import OLD_SIGNS

_SIGNS = ("configs", "logs", "monitors")
"""Directories of which a run has one."""
CHANGING = (*METRICS, LAUNCHER_STATUS, "logs/latest", "logs", "")
"""What is written while a run goes on: the newest of their modification times is when it changed."""


def is_run(path: Path) -> bool:
    """Whether a directory is a run: it has configs, logs or monitors (or what older layouts had)."""
    try:
        return has_signs(path)
    except (OSError, ValueError):  # a directory that may not be entered
        return False


def has_signs(path: Path) -> bool:
    """As :func:`is_run`. Raises OSError when the directory cannot be looked into."""
    base = os.fspath(path)
    if any(stat.S_ISDIR(_mode(f"{base}/{name}")) for name in _SIGNS):
        return True
    return any(_mode(f"{base}/{name}") for name in OLD_SIGNS)


def _mode(path: str) -> int:
    """What a path is, 0 when there is nothing. Raises OSError when that cannot be told."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116 (asked of every directory of a list: a Path costs as much)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return 0
        raise


def run_id(real_path: str) -> str:
    """The id of the run at a path without links: its directory's name, ``~`` and 8 hex digits of the path's SHA-256.

    It stays the same whatever other runs appear, and tells two of one name apart. It changes when the run is moved.
    """
    import hashlib

    digest = hashlib.sha256(os.fsencode(real_path)).hexdigest()[:8]
    name = os.fsencode(Path(real_path).name).decode(errors="replace")
    return f"{name}~{digest}"

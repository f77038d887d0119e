"""Opening what should be a regular file in a directory that anybody may have written to.

Opening a named pipe waits for its other end, for ever where nobody comes. A reader of run directories takes regular
files only and says of anything else what it is. Nor does it follow a link, of the file or of a directory on the way,
that leads out of the run: the run directory itself may be reached by one. Left out: protection against somebody who
swaps links between the look and the opening.
"""

import errno
import io
import os
import stat
from pathlib import Path

LEAVES = "a link that leaves the run directory: not followed"
"""Why a name found in a run directory is refused."""


def open_regular(path: Path, root: Path | None = None) -> io.BufferedReader:
    """``path`` opened for reading. Raises OSError, also when it is a pipe, a device, a socket or a directory.

    ``root``: the run directory, out of which no link may lead.
    """
    if root is not None:
        require_inside(path, root)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe answers at once, and is refused below
    try:
        require_regular(handle, path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, limit: int = -1, root: Path | None = None) -> bytes:
    """The first ``limit`` bytes of a regular file (-1: all). Raises OSError as :func:`open_regular`."""
    with open_regular(path, root) as file:
        return file.read(limit)


def is_file(path: Path) -> bool:
    """Whether there is a file by this name, links followed. False where that cannot be told (``Path`` raises there)."""
    return os.path.isfile(path)  # noqa: PTH113


def is_inside(path: Path | str, root: Path | str) -> bool:
    """Whether ``path``, links followed, is ``root`` or lies below it. A loop of links lies where it stands."""
    real, base = os.path.realpath(path), os.path.realpath(root)
    return real == base or real.startswith(base.rstrip(os.sep) + os.sep)


def require_inside(path: Path, root: Path) -> None:
    """Raise PermissionError when a link leads out of the run directory ``root``."""
    if not is_inside(path, root):
        raise PermissionError(errno.EPERM, LEAVES, str(path))


def require_regular(handle: int, path: Path) -> None:
    """Raise OSError when an open file is not a regular one."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise OSError(errno.EINVAL, f"not a regular file but {kind}", str(path))

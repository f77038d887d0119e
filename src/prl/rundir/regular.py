"""Opening what should be a regular file in a directory that anybody may have written to.

Opening a named pipe waits for its other end, for ever where nobody comes. A reader of run directories takes regular
files only and says of anything else what it is.
"""

import errno
import io
import os
import stat
from pathlib import Path


def open_regular(path: Path) -> io.BufferedReader:
    """``path`` opened for reading. Raises OSError, also when it is a pipe, a device, a socket or a directory."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe answers at once, and is refused below
    try:
        require_regular(handle, path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, limit: int = -1) -> bytes:
    """The first ``limit`` bytes of a regular file (-1: all). Raises OSError as :func:`open_regular`."""
    with open_regular(path) as file:
        return file.read(limit)


def require_regular(handle: int, path: Path) -> None:
    """Raise OSError when an open file is not a regular one."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise OSError(errno.EINVAL, f"not a regular file but {kind}", str(path))

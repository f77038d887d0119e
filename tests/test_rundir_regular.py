"""Only regular files are opened, and nothing waits for the other end of a pipe."""

import os
from pathlib import Path

import pytest

from prl.rundir.regular import open_regular, read_regular


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    with open_regular(path) as file:
        assert file.seek(4) == 4
        assert file.read() == b"456789"
    assert (read_regular(path), read_regular(path, 3)) == (b"0123456789", b"012")


def test_anything_else_is_refused_with_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file but a named pipe"):
        open_regular(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(OSError, match="not a regular file but a device"):
        open_regular(Path("/dev/null"))
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "absent")

"""Writing a file so that a reader sees the old one or the new one, never a part."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any


def write_bytes(path: Path, data: bytes, *, private: bool = False) -> None:
    """Replace ``path`` by ``data`` through a temporary file in the same directory. The directory must exist.

    The file's mode follows the umask (a temporary file's own mode would hide it from a group's other readers), unless
    it is ``private``: then its owner alone may read it.
    """
    import tempfile  # brings along what a reader has no use for

    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if not private:
            mask = os.umask(0)
            os.umask(mask)
            Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` (UTF-8), atomically."""
    write_bytes(path, text.encode())


def json_bytes(value: Any) -> bytes:
    """``value`` as indented JSON with a newline at its end. Non-finite floats are refused (ValueError)."""
    return (json.dumps(value, indent=2, allow_nan=False, default=str) + "\n").encode()


def write_json(path: Path, value: Any) -> None:
    """Replace ``path`` by ``value`` as :func:`json_bytes` has it, atomically."""
    write_bytes(path, json_bytes(value))


def replace_symlink(link: Path, target: str) -> None:
    """Point ``link`` at the relative ``target``: a new link is renamed over the old, so that it never dangles."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(target)
    temporary.replace(link)

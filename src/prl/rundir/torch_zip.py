"""Plain values in the container that ``torch.load`` reads, written and read without torch.

A checkpoint's ``orchestrator/progress.pt`` is by contract a torch file, and the process that writes it must not import
torch. The container is a zip archive, uncompressed, holding ``<name>/data.pkl`` (a pickle of protocol 2),
``<name>/version`` and ``<name>/byteorder``. Left out: tensors, and with them every pickled global; so a file from
elsewhere can execute nothing here, and ``torch.load(path, weights_only=True)`` accepts what is written.
"""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any, NoReturn

from prl.rundir import atomic
from prl.rundir.regular import open_regular

_ARCHIVE = "archive"
_FORMAT_VERSION = b"3\n"


class TorchFileError(ValueError):
    """A file that is not a torch file of plain values, with the reason."""


class _PlainUnpickler(pickle.Unpickler):
    """Builds numbers, strings, None, lists, tuples and dicts; any name of a class or function is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"holds a {module}.{name}, only plain values are read")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("holds a tensor, only plain values are read")


def save_plain(path: Path, value: Any) -> None:
    """Write ``value`` (dict, list, str, int, float, bool, None, nested) to ``path``, atomically.

    Raises TypeError for any other type.
    """
    _require_plain(value)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{_ARCHIVE}/data.pkl", pickle.dumps(value, protocol=2))
        archive.writestr(f"{_ARCHIVE}/byteorder", b"little")
        archive.writestr(f"{_ARCHIVE}/version", _FORMAT_VERSION)
    atomic.write_bytes(path, buffer.getvalue())


def load_plain(path: Path) -> Any:
    """Read what :func:`save_plain` or ``torch.save`` of plain values wrote.

    Raises OSError when the file cannot be read and TorchFileError when it holds anything else.
    """
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            if len(names) != 1:
                raise TorchFileError(f"{path}: not a torch file (no data.pkl inside)")
            return _PlainUnpickler(io.BytesIO(archive.read(names[0]))).load()
    except zipfile.BadZipFile as error:
        raise TorchFileError(f"{path}: not a torch file ({error})") from error
    except (TorchFileError, OSError):
        raise
    except Exception as error:  # bytes that are no pickle make it raise whatever they happen to ask for
        raise TorchFileError(f"{path}: {type(error).__name__}: {error}") from error


def _require_plain(value: Any) -> None:
    if isinstance(value, dict):
        for key, entry in value.items():
            _require_plain(key)
            _require_plain(entry)
    elif isinstance(value, list):
        for entry in value:
            _require_plain(entry)
    elif value is not None and type(value) not in (str, int, float, bool):
        raise TypeError(f"{type(value).__name__} is not a plain value: {value!r}")

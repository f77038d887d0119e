"""``broadcasts/step_V/``: the weights of policy version V on their way, with the markers of the handshake.

Order of the markers: ``.sender_ready`` (trainer offers), ``.receiver_ready`` (orchestrator accepts), ``.started``,
``.finished`` (the files are whole; the oldest layout has ``STABLE`` instead). Beside the weights lies
``manifest.json``, which an engine checks before it touches its own weights:
``{"version": V, "files": {name: {"bytes": n, "sha256": hex}}}``.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from prl.rundir import atomic
from prl.rundir.layout import step_number
from prl.rundir.regular import open_regular, read_regular

SENDER_READY = ".sender_ready"
RECEIVER_READY = ".receiver_ready"
STARTED = ".started"
FINISHED = ".finished"
OLD_FINISHED = "STABLE"
MANIFEST = "manifest.json"

STUCK_SECONDS = 1200.0
"""After so long in one state a broadcast is given up by either side, with the default timeout."""


class WeightDirectoryError(ValueError):
    """A weight directory that must not be loaded, with the reason."""


@dataclass(frozen=True)
class BroadcastState:
    """One broadcast directory: its version and when each marker was touched (Unix seconds, None: not yet)."""

    version: int
    path: Path
    sender_ready: float | None
    receiver_ready: float | None
    started: float | None
    finished: float | None

    @property
    def acknowledged_after(self) -> float | None:
        """Seconds from the offer to its acceptance; None when one is not there or they are out of order."""
        return _between(self.sender_ready, self.receiver_ready)

    @property
    def transferred_in(self) -> float | None:
        """Seconds from the first byte to the last; None when one is not there or they are out of order."""
        return _between(self.started, self.finished)

    @property
    def last(self) -> tuple[str, float | None]:
        """How far it got and when: ``finished``, ``sending``, ``accepted``, ``offered``, or ``empty`` with None."""
        stages = (
            ("finished", self.finished),
            ("sending", self.started),
            ("accepted", self.receiver_ready),
            ("offered", self.sender_ready),
        )
        return next(((stage, time) for stage, time in stages if time is not None), ("empty", None))

    def state(self, now: float, stuck_after: float = STUCK_SECONDS) -> str:
        """How far it got, or ``stuck`` when it got no further for ``stuck_after`` seconds before ``now``."""
        stage, since = self.last
        waited = stage != "finished" and since is not None and now - since > stuck_after
        return "stuck" if waited else stage


def list_broadcasts(directory: Path) -> list[BroadcastState]:
    """The broadcasts below ``directory``, by version. What vanishes meanwhile is left out."""
    try:
        entries = list(directory.iterdir())
    except OSError:
        return []
    states = [_read(version, path) for path in entries if (version := step_number(path)) is not None]
    return sorted(states, key=lambda state: state.version)


def _read(version: int, path: Path) -> BroadcastState:
    offered, accepted, started, finished = (
        _mtime(path / marker) for marker in (SENDER_READY, RECEIVER_READY, STARTED, FINISHED)
    )
    if finished is None:
        finished = _mtime(path / OLD_FINISHED)
    return BroadcastState(version, path, offered, accepted, started, finished)


def _between(before: float | None, after: float | None) -> float | None:
    return after - before if before is not None and after is not None and after >= before else None


def write_manifest(directory: Path, version: int) -> None:
    """Describe all files of ``directory`` (markers aside) in its manifest."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(directory.iterdir())
        if path.is_file() and path.name != MANIFEST and not path.name.startswith(".")
    }
    atomic.write_json(directory / MANIFEST, {"version": version, "files": files})


def verify_weights(directory: Path, version: int | None = None) -> int:
    """Check a weight directory against its manifest and return its version.

    Raises WeightDirectoryError when the directory, the manifest or a file is missing, when the version is not
    ``version``, or when a size or checksum differs.
    """
    if not directory.is_dir():
        raise WeightDirectoryError(f"{directory}: no such directory")
    try:
        manifest = json.loads(read_regular(directory / MANIFEST))
        found, files = int(manifest["version"]), dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightDirectoryError(f"{directory / MANIFEST}: not a readable manifest ({error})") from error
    if version is not None and found != version:
        raise WeightDirectoryError(f"{directory}: holds version {found}, not {version}")
    if not any(name.endswith(".safetensors") for name in files):
        raise WeightDirectoryError(f"{directory}: its manifest names no safetensors file")
    for name, entry in files.items():
        path = directory / name
        if Path(name).name != name:
            raise WeightDirectoryError(f"{directory}: the manifest names a path outside: {name!r}")
        try:
            size = path.stat().st_size
            if size != entry["bytes"]:
                raise WeightDirectoryError(f"{path}: {size} bytes, the manifest says {entry['bytes']}")
            if _sha256(path) != entry["sha256"]:
                raise WeightDirectoryError(f"{path}: checksum differs from the manifest")
        except (OSError, KeyError, TypeError) as error:
            raise WeightDirectoryError(f"{path}: {error}") from error
    return found


def _mtime(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _sha256(path: Path) -> str:
    import hashlib

    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

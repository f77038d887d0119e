"""What is known of the runs in one directory, kept for as long as nothing in them changes.

An entry goes with the files and directories that were looked at to make it, each by inode, size, modification time and
change time (which nobody can set back, as copying an older file over a newer one does with the other).
A file that did not exist is watched through the nearest directory above it that did: making it changes that one. An
entry one of whose files changed within the last moments before it was read is not kept, since a second change in the
same tick of a file system's clock would not show. What one process learned another finds in a file below the user's
cache directory. A wrong or missing file there costs time, never a wrong answer.
"""

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from prl.rundir.cache import cache_root
from prl.rundir.layout import EPISODE_INDEX, LAUNCHER_STATUS, METRICS
from prl.rundir.progress import TRAINER_STEP
from prl.rundir.recognition import has_signs
from prl.rundir.regular import read_regular
from prl.rundir.runs import RunInfo, read_run
from prl.rundir.status import FAILED, FINISHED, STOPPED

FORM = 4
"""Version of the file's form, and of what :func:`read_run` makes of a run: raise it when either changes."""

_WATCHED = ("", "configs", LAUNCHER_STATUS, *METRICS, EPISODE_INDEX)
_WATCHED_ENDED = ("", "configs", "launcher/status.json")
"""When the launcher has said how its run ended: whoever starts it again makes an attempt and says so."""
_SETTLED = 2.0
"""Seconds after which a file system's clock has surely moved on."""
_YOUNG = 600.0
"""Seconds in which an attempt gets its configuration and its first logs. Only so long are they watched."""
_SAVE_SHARE = 20
_SAVE_SECONDS = 60.0
"""The file is written when one in 20 entries is new, or a minute after it last was."""
_MAX_FILE = 256 * 1024**2

_Sign = tuple[int, int, int, int]
"""Inode, size, times of modification and of change in nanoseconds."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What was read of one directory. ``run`` None: it is no run."""

    signs: tuple[tuple[str, _Sign], ...]
    """What was looked at, by its name below the directory."""
    run: RunInfo | None


class Remembered:
    """The entries of one directory."""

    _known: ClassVar[dict[str, "Remembered"]] = {}

    def __init__(self, directory: Path, real: str) -> None:
        self.directory = directory
        self._base = str(directory)
        self._file = cache_root() / f"runs-{FORM}" / f"{hashlib.sha256(os.fsencode(real)).hexdigest()[:24]}.json"
        self._entries = _load(self._file, directory)
        self._new = 0
        self._saved = time.monotonic()

    @classmethod
    def of(cls, directory: Path) -> "Remembered":
        """What this process knows of ``directory``, begun with what others left."""
        real = os.path.realpath(directory)
        key = f"{cache_root()}\0{directory}\0{real}"
        found = cls._known.get(key)
        if found is None:
            found = cls._known[key] = cls(directory, real)
        return found

    def look(self, name: str) -> tuple[RunInfo | None, bool]:
        """The run of that name in the directory (None: it is none), and whether it had to be read.

        Raises OSError when nothing can be said about it.
        """
        base = f"{self._base}/{name}"
        entry = self._entries.get(name)
        if entry is not None and _stands(base, entry):
            return entry.run, False
        entry, settled = _read(self.directory / name, base)
        if settled:
            self._entries[name] = entry
            self._new += 1
        else:
            self._entries.pop(name, None)
        return entry.run, True

    def keep(self, names: Iterable[str]) -> None:
        """Forget all but ``names``, and write the file when it pays."""
        for gone in self._entries.keys() - set(names):
            del self._entries[gone]
        late = time.monotonic() - self._saved > _SAVE_SECONDS
        if self._new and (late or self._new * _SAVE_SHARE >= len(self._entries)):
            _save(self._file, self._entries)
            self._new, self._saved = 0, time.monotonic()


def _stands(base: str, entry: _Entry) -> bool:
    """Whether nothing that was looked at has changed. The cost of a quiet run is all here."""
    try:
        for name, sign in entry.signs:
            found = os.stat(base + name)  # noqa: PTH116 (a Path costs as much as the call)
            if (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns) != sign:
                return False
    except OSError:
        return False
    return True


def _read(path: Path, base: str) -> tuple[_Entry, bool]:
    """A directory, and whether what was read of it may be kept."""
    # What is watched is noted before it is read: a change in between shows.
    now = time.time_ns()
    before = _signs(base, _WATCHED)
    if not any(f"/{name}" in before for name in METRICS):
        before |= _signs(base, (TRAINER_STEP,))
    run = read_run(path) if has_signs(path) else None
    ended = run is not None and run.phase in (FINISHED, FAILED, STOPPED)
    kept = _signs(base, _WATCHED_ENDED) if ended else dict(before)
    if run is not None and run.attempts:
        newest = f"attempt_{run.attempts[-1]}"
        beginning = _signs(base, (f"configs/{newest}/resolved", f"logs/{newest}"))
        kept |= {name: sign for name, sign in beginning.items() if now - sign[2] < _YOUNG * 1e9}
    unmoved = all(before.get(name, sign) == sign for name, sign in kept.items())
    settled = all(now - mtime > _SETTLED * 1e9 for _, _, mtime, _ in kept.values())
    return _Entry(tuple(kept.items()), run), bool(kept) and unmoved and settled


def _signs(base: str, names: tuple[str, ...]) -> dict[str, _Sign]:
    """What to look at for a change of these: each itself, or the nearest directory above it."""
    found: dict[str, _Sign] = {}
    for name in names:
        place: str | None = f"/{name}" if name else ""
        while place is not None and place not in found:
            try:
                stat = os.stat(base + place)  # noqa: PTH116
                found[place] = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            except OSError:
                place = place.rpartition("/")[0] if place else None
    return found


def _load(path: Path, directory: Path) -> dict[str, _Entry]:
    try:
        raw = json.loads(read_regular(path, _MAX_FILE))
        entries = raw["entries"].items() if raw["form"] == FORM else ()
        return {name: _entry(value, directory / name) for name, value in entries}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _entry(value: list[Any], path: Path) -> _Entry:
    signs, run = value
    return _Entry(
        tuple((name, (inode, size, mtime, ctime)) for name, inode, size, mtime, ctime in signs),
        None if run is None else RunInfo.from_json(run, path),
    )


def _save(path: Path, entries: dict[str, _Entry]) -> None:
    """Replace the file. Where that cannot be (a full disk, a read-only home) the next process reads the runs again."""
    plain = {
        name: [[[place, *sign] for place, sign in entry.signs], entry.run and entry.run.to_json()]
        for name, entry in entries.items()
    }
    temporary: str | None = None
    with contextlib.suppress(OSError):
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.")
            with os.fdopen(handle, "w") as file:
                file.write(json.dumps({"form": FORM, "entries": plain}, separators=(",", ":")))
            Path(temporary).replace(path)
        except OSError:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            raise

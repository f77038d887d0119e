"""STATUS.md: check-ins appended to the run directory in the form that the runbook's readers expect.

An entry is one ``write`` to a file opened for appending, so that entries of two writers never mix and nothing that was
written before, by whomever, is touched. The file knows three healths: an unknown one is written ``Degraded``, and the
notes say what is not known. Two parts are added to the readers' form, before the notes: a line of what has changed
since the entry before (:mod:`prl.watch.last_entry`), and in the first entry of an attempt what the run is.
"""

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

from prl.rundir.regular import require_inside, require_regular
from prl.watch.last_entry import LastEntry, changes
from prl.watch.outward import safe
from prl.watch.verdict import DEGRADED, FAILED, FAILING, RUNNING, UNKNOWN, Number, Verdict
from prl.watch.words import number_words, step_words, utc_words

_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|(?<=\])[(\[:]")
_MAX_NUMBERS = 12
_MAX_NOTES = 8


def entry(verdict: Verdict, previous: LastEntry | None = None, introduction: Sequence[str] = ()) -> str:
    """The check-in entry: heading, step, health, the three groups of numbers, what changed, what the run is, notes
    where something is notable. ``previous``: the entry before, None for the first; ``introduction``: harmless lines.
    """
    numbers = verdict.numbers
    health = DEGRADED if verdict.health == UNKNOWN else verdict.health
    lines = [
        f"## {utc_words(verdict.as_of)}",
        "",
        f"**Step**: {step_words(verdict.step, verdict.max_steps, endless=verdict.endless)}",
        f"**Health**: {health}",
        "",
        f"**Progress**: {_group(numbers.progress)}",
        f"**Stability**: {_group(numbers.stability)}",
        f"**Performance**: {_group(numbers.performance)}{_bottleneck(verdict)}",
        changes(verdict, previous),
    ]
    if introduction:
        lines += ["", *introduction]
    notes = _notes(verdict)
    if notes:
        lines += ["", f"**Notes**: {notes}"]
    return "\n".join(map(_without_markup, lines)) + "\n"


def _without_markup(line: str) -> str:
    """A line in which nothing that files held becomes a link, an image or HTML where Markdown is rendered."""
    return _MARKUP.sub(r"\\\g<0>", line)


def append(path: Path, text: str) -> None:
    """Append an entry whole or not at all, to a regular file in the directory of ``path``. Raises OSError."""
    require_inside(path, path.parent)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        require_regular(handle, path)
        size = os.fstat(handle).st_size
        ends_line = size == 0 or os.pread(handle, 1, size - 1) == b"\n"
        data = ("" if size == 0 else "\n" if ends_line else "\n\n").encode() + text.encode()
        written = os.write(handle, data)
        if written < len(data):
            _take_back(handle, written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(handle)


def _take_back(handle: int, written: int) -> None:
    """Remove the part of an entry that a full disk let through, if nobody has appended since."""
    end = os.lseek(handle, 0, os.SEEK_CUR)
    if os.fstat(handle).st_size == end:
        os.ftruncate(handle, end - written)


def _group(numbers: list[Number]) -> str:
    if not numbers:
        return "nothing recorded yet"
    shown = ", ".join(safe(number_words(number)) for number in numbers[:_MAX_NUMBERS])
    return shown + (f", and {len(numbers) - _MAX_NUMBERS} more" if len(numbers) > _MAX_NUMBERS else "")


def _bottleneck(verdict: Verdict) -> str:
    """Which side holds up the other, where one does."""
    split = verdict.bottleneck
    return f"; {safe(split.why)}: grow {split.grow}" if split is not None and split.grow is not None else ""


def _notes(verdict: Verdict) -> str:
    notes = []
    if verdict.phase != RUNNING:
        notes.append(f"Phase: {verdict.phase}" + (f" ({verdict.stage})" if verdict.stage else ""))
    if verdict.health == UNKNOWN:
        notes.append(f"Health is not known: {verdict.reason or 'the facts do not reach'}")
    elif verdict.reason and verdict.reason not in [finding.message for finding in verdict.findings]:
        notes.append(verdict.reason)
    if verdict.awaits and verdict.phase != RUNNING:
        notes.append(f"Waits for: {verdict.awaits}")
    notes += [f"{finding.message} [{finding.rule}]" for finding in verdict.findings]
    down = verdict.phase in (FAILED, FAILING)
    if verdict.errors and not verdict.findings and not down:
        first = verdict.errors[0]
        notes.append(f"Newest errors in {len(verdict.errors)} logs, first {first.file}: {first.summary}")
    shown = [safe(note).rstrip(".") for note in notes[:_MAX_NOTES]]
    return ". ".join(shown) + "." if shown else ""

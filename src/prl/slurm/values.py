"""The values that SLURM prints: durations, moments, memory, exit codes, output paths.

Each reader gives None for what says nothing (``N/A``, ``Unknown``, ``NONE``, ``(null)``, ``INVALID``) and for what it
cannot read, and never raises.
"""

import math
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo

_NOTHING = frozenset({"", "(null)", "null", "n/a", "none", "unknown", "invalid", "not_set", "none assigned"})
_DURATION = re.compile(r"(?:(\d{1,7})-)?(?:(\d{1,7}):)?(\d{1,7}):(\d{1,2})(?:\.\d+)?")
_DAYS_HOURS = re.compile(r"(\d{1,7})-(\d{1,7})(?::(\d{1,2}))?")
_MEMORY = re.compile(r"(\d{1,18}(?:\.\d+)?)([KMGTP]?)B?[cn]?", re.I)
_EXIT = re.compile(r"(\d{1,9}):(\d{1,9})")
_PATTERN = re.compile(r"%(\d{0,2})([%AaJjNnstubx])")
_OUT_OF_MEMORY = 125  # what SLURM writes for the signal of a step whose cgroup ran out of memory
_NOT_STARTED = 53  # and for a job whose output file or working directory could not be used
_COMMON = frozenset({2, 6, 9, 11, 15})  # signals that shells report as an exit code of 128 more

UNLIMITED = math.inf


@dataclass(frozen=True)
class ExitCode:
    """How a job or a step ended: its exit status and the signal that ended it, 0 for none (SLURM's ``a:b``)."""

    status: int
    signal: int
    cut: bool = field(default=False, compare=False)
    """As ``sacct`` prints it, which takes 128 off a status of 128 or more: 143 is 15 there."""

    def __str__(self) -> str:
        return f"{self.status}:{self.signal}"

    @property
    def plain(self) -> str:
        """``exit code 1``, ``signal 9 (SIGKILL)``, ``exit code 0``."""
        if self.signal == _OUT_OF_MEMORY:
            return "out of memory"
        if self.signal == _NOT_STARTED:
            return "its output file or working directory could not be used (0:53)"
        if not self.signal:
            other = f" or {128 + self.status}" if self.cut and self.status in _COMMON else ""
            return f"exit code {self.status}{other}"
        try:
            return f"signal {self.signal} ({signal.Signals(self.signal).name})"
        except ValueError:
            return f"signal {self.signal}"


def text_or_none(text: str) -> str | None:
    """``text`` as it stands, None when it is one of SLURM's words for nothing."""
    return None if text.strip().lower() in _NOTHING else text


def count(value: object) -> int | None:
    """A number: ``2``, ``"2-2"`` (a range: its lower end), ``{"set": true, "infinite": false, "number": 2}``.

    Up to 2^63; a number that is not set, infinite, negative or longer is None.
    """
    value = _plain_number(value)
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d{1,19})(?:-\d{1,19})?\s*", value)
        value = int(match[1]) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    return int(value)


def duration(text: str) -> float | None:
    """Seconds of ``[days-][hours:]minutes:seconds`` or ``days-hours[:minutes]``; infinity for ``UNLIMITED``."""
    text = text.strip()
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return UNLIMITED
    if match := _DURATION.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    elif match := _DAYS_HOURS.fullmatch(text):
        days, hours, minutes, seconds = (*(int(part or 0) for part in match.groups()), 0)
    else:
        return None
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def moment(text: str, zone: tzinfo | None = None) -> float | None:
    """Seconds since 1970 of a time as SLURM prints it: those seconds, or a local time without a zone.

    A local time is that of ``zone``, else of this machine.
    """
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 12:
        return float(text) or None
    try:
        parsed = datetime.fromisoformat(text)
        return parsed.replace(tzinfo=parsed.tzinfo or zone).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def memory(text: str) -> int | None:
    """Bytes of ``2792K``, ``1.5G``, ``4000Mn`` (per node) or ``4Gc`` (per CPU)."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        return None
    return int(float(match[1]) * 1024 ** (" KMGTP".index(match[2].upper() or " ")))


def exit_code(text: str) -> ExitCode | None:
    """``a:b`` as :class:`ExitCode`."""
    match = _EXIT.fullmatch(text.strip())
    return ExitCode(int(match[1]), int(match[2])) if match else None


def accounted_exit_code(text: str) -> ExitCode | None:
    """``a:b`` of ``sacct``, whose status may lack 128."""
    code = exit_code(text)
    return None if code is None else replace(code, cut=True)


def expand_path(pattern: str, values: Mapping[str, str | None]) -> str:
    """An output path with its ``%A %a %J %j %N %n %s %t %u %x %b`` replaced; ``%4a`` pads with zeros, ``%%`` is ``%``.

    ``values`` has a letter's text; a letter that it lacks stays as it stands. A backslash in the pattern turns
    replacing off, as in SLURM.

    >>> expand_path("out_%A_%3a.log", {"A": "42", "a": "7"})
    'out_42_007.log'
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def one(match: re.Match[str]) -> str:
        width, letter = match.groups()
        if letter == "%":
            return "%"
        value = values.get(letter)
        if value is None:
            return match[0]
        return value.zfill(min(int(width or 0), 10)) if value.isdigit() else value

    return _PATTERN.sub(one, pattern)


def _plain_number(value: object) -> object:
    """The number inside the form that newer SLURM has for one that may be unset or infinite."""
    if not isinstance(value, dict):
        return value
    if value.get("infinite") is True:
        return UNLIMITED
    return value.get("number") if value.get("set", True) else None


def json_seconds(value: object, unit: float = 1.0) -> float | None:
    """A number of SLURM's JSON times ``unit``, infinity where it says so, None where it is not set."""
    value = _plain_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return float(value) * unit if value < 2**63 else UNLIMITED

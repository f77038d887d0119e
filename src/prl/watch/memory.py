"""Main memory of this host and of the control group that a run's processes live in, with the kernel's kills there.

A batch system or a container gives a run a limit below the host's memory, and the kernel ends processes at that limit
while the host has plenty. Both versions of control groups are read. Left out: memory of GPUs, which engines and the
trainer record themselves, and hosts other than this one.
"""

import re
from pathlib import Path

from prl.rundir.regular import read_regular
from prl.watch.surroundings import Memory

_GROUPS = Path("/sys/fs/cgroup")
_MAX_BYTES = 64 * 1024
_NO_LIMIT = 2**60
"""Version 1 writes about 2**63 where there is no limit."""


def memory_facts(pid: int, proc: Path = Path("/proc"), groups: Path = _GROUPS) -> Memory | None:
    """Memory as it is now for a process of this host. None where the system does not tell (not Linux)."""
    info = _numbers(proc / "meminfo", r"^(\w+):\s+(\d+) kB$")
    total, available = info.get("MemTotal"), info.get("MemAvailable")
    if total is None or available is None:
        return None
    place = _narrowest(pid, proc, groups)
    if place is None:
        return Memory(total * 1024, available * 1024)
    directory, limit = place
    return Memory(
        total=total * 1024,
        available=available * 1024,
        limit=limit,
        used=_number(directory / "memory.current", directory / "memory.usage_in_bytes"),
        oom_kills=_kills(directory),
        source=f"/proc/meminfo and {directory}",
    )


def _narrowest(pid: int, proc: Path, groups: Path) -> tuple[Path, int | None] | None:
    """The control group with the lowest limit among those a process is in; its own where none has a limit."""
    base, names = _group(pid, proc, groups)
    if base is None:
        return None
    own = base / names
    line = [own, *own.parents]
    line = [directory for directory in line if directory.is_relative_to(base)]
    limits = [(limit, directory) for directory in line if (limit := _limit(directory)) is not None]
    if limits:
        limit, directory = min(limits, key=lambda pair: pair[0])
        return directory, limit
    return (own, None) if own.is_dir() and own != base else None


def _group(pid: int, proc: Path, groups: Path) -> tuple[Path | None, str]:
    """Where the memory of a process is accounted for: the root of that hierarchy, and the name below it."""
    for line in _text(proc / str(pid) / "cgroup").split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if "memory" in controllers.split(","):
            return groups / "memory", name.lstrip("/")
        if number == "0" and not controllers and (groups / "cgroup.controllers").exists():
            return groups, name.lstrip("/")
    return None, ""


def _limit(directory: Path) -> int | None:
    value = _number(directory / "memory.max", directory / "memory.limit_in_bytes")
    return value if value is not None and value < _NO_LIMIT else None


def _kills(directory: Path) -> int | None:
    """Kills for want of memory in a group and those below it."""
    for name in ("memory.events", "memory.oom_control"):
        found = _numbers(directory / name, r"^(oom_kill) (\d+)$").get("oom_kill")
        if found is not None:
            return found
    return None


def _number(*paths: Path) -> int | None:
    texts = (_text(path).strip() for path in paths)
    return next((int(text) for text in texts if text.isdigit()), None)


def _numbers(path: Path, line: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(line, _text(path), re.M)}


def _text(path: Path) -> str:
    try:
        return read_regular(path, _MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""

"""Processes as the launcher handles them: known by pid and start time, found with all their descendants, ended."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable

import psutil

_POLL_SECONDS = 0.05
_KILL_SECONDS = 10.0
"""How long a killed process may take to vanish; the kernel may hold it in a write to a slow disk."""


def descendants(pid: int) -> list[psutil.Process]:
    """All living descendants of a process, children first. Zombies are left out: nothing is left of them to end."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    return [process for process in found if alive(process)]


def alive(process: psutil.Process) -> bool:
    """Whether this very process (not a later one of the same pid) still runs."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def reap(known: Iterable[int]) -> None:
    """Collect the exit of children that were adopted; those in ``known`` are left to whoever waits for them."""
    spared = set(known)
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error, ChildProcessError):
            if child.pid not in spared and child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)


def end_all(
    find: Callable[[], Iterable[psutil.Process]], timeout: float, *, hurry: Callable[[], bool] = lambda: False
) -> list[psutil.Process]:
    """SIGTERM to all that ``find`` finds, now and while they end; after ``timeout`` seconds SIGKILL to the rest.

    ``hurry`` is asked again and again whether to kill at once. Returns those that had to be killed.
    """
    asked: set[psutil.Process] = set()
    deadline = time.monotonic() + timeout
    while True:
        living = [process for process in find() if alive(process)]
        if not living:
            return []
        if hurry() or time.monotonic() >= deadline:
            break
        for process in living:
            if process not in asked:
                asked.add(process)
                with contextlib.suppress(psutil.Error):
                    process.terminate()
        time.sleep(_POLL_SECONDS)
    deadline = time.monotonic() + _KILL_SECONDS
    killed: dict[int, psutil.Process] = {}
    while living and time.monotonic() < deadline:
        for process in living:
            killed[process.pid] = process
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(_POLL_SECONDS)
        living = [process for process in find() if alive(process)]
    return list(killed.values())

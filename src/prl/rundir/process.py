"""Ties of a process to its parent, so that no part of a run outlives it.

Linux can send a process a signal when its parent dies and can hand orphans to a chosen ancestor; both calls are one
``prctl`` each. Elsewhere they do nothing, and only the launcher's own teardown ends a run's processes.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Loaded at import: between fork and exec, where the launcher makes the call, nothing may be imported any more.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(signum: int = signal.SIGTERM) -> None:
    """Have the kernel send this process ``signum`` when the thread that started it ends. Survives ``exec``.

    A parent that died while this was being arranged sends nothing any more, so the process then ends itself.
    """
    if _LIBC is None:
        return
    parent = os.getppid()
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signum)


def adopt_orphans(adopt: bool = True) -> None:
    """Become the parent of every descendant whose own parent dies, so that it can still be found and ended."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)

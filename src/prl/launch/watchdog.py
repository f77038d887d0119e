"""Ends a run's processes when its launcher was killed and could not do so itself.

The kernel tells the launcher's children of its death (``prl.rundir.process``), but neither their children nor those
that do not listen. So a small process holds the reading end of a pipe whose writing end only the launcher has: every
few seconds the launcher writes which processes are the run's, before it exits it writes that all is done, and when the
pipe closes without that, the processes last named and their descendants are ended. It also corrects ``status.json``,
which would say for ever that the run is at work.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import psutil

from prl.launch.processes import descendants, end_all
from prl.rundir.status import FAILED, RUNNING, STARTING, STOPPING, read_status
from prl.rundir.titles import WATCHDOG, set_process_title

_DONE = b"done"


class Watchdog:
    """The launcher's end of the pipe."""

    def __init__(self, status_json: Path, log: Path, timeout: float) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "prl.launch.watchdog", str(os.getpid()), str(status_json), str(timeout)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._pipe: IO[bytes] = self._process.stdin
        os.set_blocking(self._pipe.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def guard(self, processes: Iterable[psutil.Process]) -> None:
        """Name the processes to end should the launcher be killed."""
        named = []
        for process in processes:
            with contextlib.suppress(psutil.Error):
                named.append([process.pid, process.create_time()])
        self._write(json.dumps(named).encode())

    def dismiss(self) -> None:
        """All is done: let it go."""
        self._write(_DONE)
        with contextlib.suppress(OSError):
            self._pipe.close()
        try:
            self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self, line: bytes) -> None:
        # A watchdog that was killed or stopped must not keep the launcher from its work.
        with contextlib.suppress(OSError):
            os.write(self._pipe.fileno(), line + b"\n")


def main() -> None:
    """``python -m prl.launch.watchdog LAUNCHER_PID STATUS_JSON TIMEOUT``, with the pipe as standard input."""
    set_process_title(WATCHDOG)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    launcher, status_json, timeout = int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    last = b"[]"
    for line in sys.stdin.buffer:
        if line.strip() == _DONE:
            return
        if line.endswith(b"\n"):
            last = line
    roots = [process for pid, started in json.loads(last) if (process := _same(pid, started)) is not None]

    def find() -> list[psutil.Process]:
        return [*roots, *(child for root in roots for child in descendants(root.pid))]

    # Whoever has a parent that dies first is no longer found below it: the tree is taken down as seen now, too.
    roots.extend(process for process in find() if process not in roots)
    end_all(find, timeout)
    _correct(status_json, launcher)


def _same(pid: int, started: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return process if abs(process.create_time() - started) < 0.1 else None
    except psutil.Error:
        return None


def _correct(status_json: Path, launcher: int) -> None:
    """Write into the launcher's status that it was killed, unless a later launcher has taken over."""
    reason = f"the launcher (process {launcher}) was killed; its processes were ended"
    print(f"{time.strftime('%H:%M:%S')}   ERROR {reason[0].upper()}{reason[1:]}", flush=True)
    status = read_status(status_json)
    if status is None or status.pid != launcher or status.phase not in (STARTING, RUNNING, STOPPING):
        return
    status.phase, status.reason, status.waiting_for = FAILED, reason, None
    status.updated = status.ended = time.time()
    for process in status.processes:
        if process.ended is None:
            process.ended, process.reason = status.ended, "ended after the launcher was killed"
    with contextlib.suppress(OSError):
        status.write(status_json)


if __name__ == "__main__":
    main()

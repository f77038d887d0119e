"""The orchestrator as a process: title, log, monitor, signals, exit status.

Exit status 0 means that ``max_steps`` were shipped and the last policy was applied; everything else is 1, a shutdown
that hangs after a failure included.
"""

import asyncio
import logging
import os
import signal
import threading

from prl.config.orchestrator import OrchestratorConfig
from prl.monitors.base import Monitor, NullMonitor
from prl.monitors.file import open_monitor
from prl.orchestrator.loop import orchestrate
from prl.rundir.logs.console import log_fatal, setup_logging
from prl.rundir.titles import ORCHESTRATOR, set_process_title

logger = logging.getLogger(__name__)


class ShutdownDeadline:
    """Ends the process, with the status it would have had, when shutting down takes too long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: threading.Timer | None = None

    def arm(self, status: int) -> None:
        """Start the clock; the first call counts."""
        if self._timer is None:
            self._timer = threading.Timer(self._seconds, self._leave, [status])
            self._timer.daemon = True
            self._timer.start()

    def disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _leave(self, status: int) -> None:
        logger.warning("Shutdown did not complete within %.0fs, leaving with exit status %d", self._seconds, status)
        logging.shutdown()
        os._exit(status)


def run_orchestrator(config: OrchestratorConfig) -> int:
    """Run to the end and return the exit status."""
    set_process_title(ORCHESTRATOR)
    setup_logging(config.log.level, json_logging=config.log.json_logging)
    deadline = ShutdownDeadline(config.shutdown_timeout)
    monitor: Monitor = NullMonitor()
    status = 1
    try:
        monitor = open_monitor(config.output_dir, "orch", config.monitors)
        status = asyncio.run(_until_signal(config, monitor, deadline))
    except Exception:
        log_fatal(logger, "run_orchestrator")
        deadline.arm(status)
    monitor.close(clean=status == 0)
    deadline.disarm()
    return status


async def _until_signal(config: OrchestratorConfig, monitor: Monitor, deadline: ShutdownDeadline) -> int:
    """Orchestrate; a SIGTERM or SIGINT ends that early. Returns the exit status."""
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(orchestrate(config, monitor))
    interrupted = False

    def stop(signum: signal.Signals) -> None:
        nonlocal interrupted
        if not interrupted:
            logger.warning("Orchestrator was interrupted by %s, shutting down", signum.name)
        interrupted = True
        deadline.arm(1)
        work.cancel()

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop, signum)
    status = 1
    try:
        await work
        status = 0
    except asyncio.CancelledError:
        if not interrupted:
            raise
    finally:
        deadline.arm(status)
    return status

"""The weight broadcast handshake over the file system (``spec`` of the markers: :mod:`prl.rundir.broadcasts`).

The trainer offers version V and waits for an acknowledgement; the orchestrator acknowledges when it is ready to take
it; the trainer writes the files and marks them finished; the orchestrator lets the engines load them. Every wait is
bounded, and says at intervals what it waits for. A full disk is waited out as well: a run that lost its weights to a
minute without space would lose more than the minute.
"""

import asyncio
import contextlib
import errno
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from prl.config.common import WeightBroadcastConfig
from prl.rundir import broadcasts
from prl.rundir.broadcasts import BroadcastState, list_broadcasts

logger = logging.getLogger(__name__)

_FULL_DISK_INTERVAL = 0.5
"""Seconds between two tries to write to a full disk."""


def is_disk_full(error: BaseException) -> bool:
    """Whether ``error`` says that a disk or a quota is full; safetensors reports it as text alone."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return any(text in str(error) for text in ("No space left on device", "code: 28", "Disk quota exceeded"))


class WeightSender:
    """The trainer's end, used by rank 0 alone. Blocking."""

    def __init__(self, directory: Path, config: WeightBroadcastConfig) -> None:
        self.directory = directory
        self.config = config

    def send(self, version: int, write: Callable[[Path], None]) -> None:
        """Offer ``version``, wait for the receiver, let ``write(path)`` put the files there, and mark them finished.

        Raises TimeoutError (contract's words: ``No receiver joined the broadcast within``) when nobody acknowledges,
        and the write's own error when the disk stays full for ``timeout`` seconds or fails otherwise.
        """
        path = self.directory / f"step_{version}"
        self._remove(path)
        self._despite_full_disk(path, lambda: self._offer(path))
        self._wait_for_receiver(path)
        self._despite_full_disk(path, lambda: self._fill(path, version, write))
        self._prune(version)

    def _offer(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        (path / broadcasts.SENDER_READY).touch()

    def _fill(self, path: Path, version: int, write: Callable[[Path], None]) -> None:
        (path / broadcasts.STARTED).touch()
        write(path)
        broadcasts.write_manifest(path, version)
        (path / broadcasts.FINISHED).touch()

    def _despite_full_disk(self, path: Path, action: Callable[[], None]) -> None:
        start = time.monotonic()
        warn_at = start
        while True:
            try:
                return action()
            except Exception as error:
                now = time.monotonic()
                if not is_disk_full(error) or now - start > self.config.timeout:
                    raise
                if now >= warn_at:
                    logger.error("No space left on device for %s: waiting for space, since %.0fs", path, now - start)
                    warn_at = now + self.config.warn_interval
                time.sleep(max(self.config.poll_interval, _FULL_DISK_INTERVAL))

    def _wait_for_receiver(self, path: Path) -> None:
        start = time.monotonic()
        warn_at = start + self.config.warn_interval
        marker = path / broadcasts.RECEIVER_READY
        while not marker.exists():
            now = time.monotonic()
            if now - start > self.config.timeout:
                raise TimeoutError(
                    f"No receiver joined the broadcast within {self.config.timeout:.0f}s "
                    f"(the orchestrator did not touch {marker})"
                )
            if now >= warn_at:
                logger.info("Still waiting for the broadcast receiver after %.0fs", now - start)
                warn_at = now + self.config.warn_interval
            time.sleep(self.config.poll_interval)

    def _prune(self, newest: int) -> None:
        for state in list_broadcasts(self.directory):
            if state.version <= newest - self.config.keep:
                self._remove(state.path)

    def _remove(self, path: Path) -> None:
        """Remove a version as a whole: one that lost its markers file by file would look like a fresh offer between."""
        removed = path.with_name(f".{path.name}.removed")
        shutil.rmtree(removed, ignore_errors=True)  # what a sender that was killed left
        with contextlib.suppress(FileNotFoundError):
            path.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)


class WeightReceiver:
    """The orchestrator's end."""

    def __init__(self, directory: Path, config: WeightBroadcastConfig) -> None:
        self.directory = directory
        self.config = config

    def offered(self, after: int) -> BroadcastState | None:
        """The oldest offered version newer than ``after``, or None."""
        for state in list_broadcasts(self.directory):
            if state.version > after and state.sender_ready is not None:
                return state
        return None

    def open_offer(self, version: int) -> BroadcastState | None:
        """The offer of exactly ``version`` if nobody has accepted it yet, else None.

        An accepted one is left over from an earlier attempt: the trainer makes the directory anew when it offers.
        """
        path = self.directory / f"step_{version}"
        if (path / broadcasts.RECEIVER_READY).exists():
            return None
        try:
            offered = (path / broadcasts.SENDER_READY).stat().st_mtime
        except OSError:
            return None
        return BroadcastState(version, path, offered, None, None, None)

    def acknowledge(self, state: BroadcastState) -> None:
        """Accept an offer: the trainer goes on and writes. An offer that was withdrawn meanwhile is left alone."""
        with contextlib.suppress(FileNotFoundError):
            (state.path / broadcasts.RECEIVER_READY).touch()

    async def wait_finished(self, state: BroadcastState) -> None:
        """Wait until the files are whole. Raises TimeoutError after ``timeout`` seconds.

        A trainer that starts over an offer which a dead one left makes the directory anew, without the
        acknowledgement: it is given again.
        """
        start = time.monotonic()
        warn_at = start + self.config.warn_interval
        marker = state.path / broadcasts.FINISHED
        while not marker.exists():
            if self.open_offer(state.version) is not None:
                self.acknowledge(state)
            now = time.monotonic()
            if now - start > self.config.timeout:
                raise TimeoutError(f"the trainer did not finish writing {state.path} within {self.config.timeout:.0f}s")
            if now >= warn_at:
                logger.info("Still waiting for %s after %.0fs", marker, now - start)
                warn_at = now + self.config.warn_interval
            await asyncio.sleep(self.config.poll_interval)

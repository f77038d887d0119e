"""The monitor that writes the run directory: metrics, episodes, trace updates and rollouts in flight.

Calls only put things into bounded queues; one thread writes. When a queue is full the newest thing is dropped, and when
the disk refuses (full, gone) things are dropped for as long as it does: both are counted, said in the log and recorded
in the metrics as ``monitor/dropped/<kind>``. Writing resumes by itself. Left out: waiting for the disk (training must
go on) and keeping what could not be written for later (memory would grow without bound).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prl.config.common import FileMonitorConfig, MonitorsConfig
from prl.monitors.base import Monitor, NullMonitor
from prl.rundir.annotations.writer import AnnotationWriter
from prl.rundir.chunks import Sealer
from prl.rundir.episodes.record import episode_kind
from prl.rundir.episodes.writer import EpisodeWriter
from prl.rundir.jsonl import Appender, encode
from prl.rundir.layout import RunLayout
from prl.rundir.live.writer import LIVE, LiveWriter
from prl.rundir.metrics.writer import metrics_row

LIVE_EVENTS = 20_000
"""Events of rollouts in flight that may wait."""
DRAIN_SECONDS = 30.0
"""How long :meth:`FileMonitor.close` waits for what is queued to be written."""
SEAL_SECONDS = 600.0
"""How long it then waits for chunks to be sealed at a clean end. One that is not stays plain and readable."""
HASTY_SEAL_SECONDS = 2.0
"""The same at any other end, which may be somebody's patience running out."""
REPORT_SECONDS = 10.0
"""Between two rows of counts of what was dropped, while they grow."""
REMIND_SECONDS = 60.0
"""Between two log lines about the same trouble."""
RECOVERY_SECONDS = 2.0
"""Without a failure before trouble counts as over: on a nearly full disk small writes pass while large ones fail."""

METRICS, EPISODES, ANNOTATIONS = "metrics", "episodes", "annotations"
KINDS = (METRICS, EPISODES, ANNOTATIONS, LIVE)

_BATCH = 256
_logger = logging.getLogger(__name__)


def open_monitor(run_dir: Path, producer: str, config: MonitorsConfig) -> Monitor:
    """The monitor of one producer (``orch``, ``trainer``, ``eval``). With ``monitors.file`` off, nothing is created."""
    return NullMonitor() if config.file is None else FileMonitor(run_dir, producer, config.file)


class FileMonitor:
    """Writes below ``monitors/file/`` of a run. Any thread may call it; no call raises or blocks."""

    def __init__(self, run_dir: Path, producer: str, config: FileMonitorConfig) -> None:
        layout = RunLayout(run_dir)
        self.producer = producer
        self.config = config
        self.traces = layout.traces
        self._metrics = Appender(layout.file_monitor / config.path, shared=True)
        self._episodes: EpisodeWriter | None = None
        self._annotations: AnnotationWriter | None = None
        self._live: LiveWriter | None = None
        self._sealer = Sealer(layout.traces / ".sealing") if config.compress else None

        self._changed = threading.Condition()
        self._queue: deque[tuple[str, Any]] = deque()
        self._live_queue: deque[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = deque()
        self._live_lost: set[tuple[str, str]] = set()
        self._dropped = dict.fromkeys(KINDS, 0)
        self._closing: bool | None = None
        """None while open; then whether the end is clean."""
        self._abandoned = False

        self._reported = dict(self._dropped)
        self._next_report = 0.0
        self._next_live = 0.0
        self._remind_at: dict[str, float] = {}
        """By kind that cannot be written at present: when to say so again."""
        self._failed_at: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name=f"file-monitor-{producer}", daemon=True)
        self._thread.start()

    def log(self, metrics: Mapping[str, float], *, step: int | None) -> None:
        row, dropped = metrics_row(metrics, step=step, time=time.time(), producer=self.producer)
        if dropped:
            names = ", ".join(dropped)
            _logger.warning("Dropping %d non-finite value(s) from %s: %s", len(dropped), self.config.path, names)
        self._put(METRICS, row)

    def record_episode(self, record: dict[str, Any]) -> None:
        self._put(EPISODES, (record, time.time()))

    def annotate(self, updates: Sequence[dict[str, Any]]) -> None:
        for update in updates:
            self._put(ANNOTATIONS, update)

    def live_pending(self, dispatch: Mapping[str, Any]) -> None:
        self._put_live("pending", dispatch, {})

    def live_delta(self, dispatch: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        self._put_live("delta", dispatch, delta)

    def live_done(self, dispatch_id: str) -> None:
        self._put_live("done", {"id": dispatch_id}, {})

    def close(self, *, clean: bool) -> None:
        with self._changed:
            if self._closing is not None:
                return
            self._closing = clean
            self._changed.notify()
        self._thread.join(DRAIN_SECONDS)
        if self._thread.is_alive():
            self._abandoned = True
            _logger.error(
                "%s: %d record(s) could not be written within %.0f s and are lost",
                self.traces.parent,
                len(self._queue),
                DRAIN_SECONDS,
            )
        elif self._sealer is not None:
            seconds = SEAL_SECONDS if clean else HASTY_SEAL_SECONDS
            if not self._sealer.close(seconds):
                _logger.warning(
                    "%s: sealing takes longer than %.0f s; the last chunks stay plain", self.traces, seconds
                )

    def dropped(self) -> dict[str, int]:
        """How many things of each kind were dropped so far."""
        with self._changed:
            return dict(self._dropped)

    def _put(self, kind: str, item: Any) -> None:
        with self._changed:
            if self._closing is not None or len(self._queue) >= self.config.queue_records:
                self._dropped[kind] += 1
                return
            self._queue.append((kind, item))
            self._changed.notify()

    def _put_live(self, event: str, dispatch: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        if not self.config.live:
            return
        with self._changed:
            # An end is always taken: it frees what the others hold.
            if self._closing is not None or (len(self._live_queue) >= LIVE_EVENTS and event != "done"):
                self._dropped[LIVE] += 1
                if event == "delta":
                    self._live_lost.add((str(dispatch.get("id")), str(delta.get("trace"))))
                return
            self._live_queue.append((event, dispatch, delta))

    def _run(self) -> None:
        while True:
            closing = self._wait()
            for kind, item in self._take():
                if self._abandoned:
                    return
                self._attempt(kind, partial(self._write, kind, item))
            if time.monotonic() >= self._next_live or closing is not None:
                self._write_live()
                self._next_live = time.monotonic() + self.config.live_interval
            self._report(last=False)
            if closing is not None and not self._queue:
                self._finish(clean=closing)
                return

    def _wait(self) -> bool | None:
        with self._changed:
            if not self._queue and self._closing is None:
                self._changed.wait(self.config.live_interval)
            return self._closing

    def _take(self) -> list[tuple[str, Any]]:
        with self._changed:
            return [self._queue.popleft() for _ in range(min(_BATCH, len(self._queue)))]

    def _write(self, kind: str, item: Any) -> None:
        if kind == METRICS:
            self._metrics.append(encode(item))
        elif kind == EPISODES:
            record, arrival = item
            self._open_episodes().append(_stamped(record, arrival), arrival=arrival)
        else:
            self._open_annotations().append(item)

    def _open_episodes(self) -> EpisodeWriter:
        if self._episodes is None:
            self._episodes = EpisodeWriter(
                self.traces,
                chunk_bytes=self.config.chunk_bytes,
                float_decimals=self.config.float_decimals,
                sealer=self._sealer,
            )
        return self._episodes

    def _open_annotations(self) -> AnnotationWriter:
        if self._annotations is None:
            self._annotations = AnnotationWriter(
                self.traces,
                self.producer,
                chunk_bytes=self.config.chunk_bytes,
                float_decimals=self.config.float_decimals,
                sealer=self._sealer,
            )
        return self._annotations

    def _write_live(self) -> None:
        with self._changed:
            events, lost = list(self._live_queue), list(self._live_lost)
            self._live_queue.clear()
            self._live_lost.clear()
        if not events and not lost:
            return
        if self._live is None and not self._attempt(LIVE, self._open_live, count=len(events)):
            return
        live = self._live
        assert live is not None
        for dispatch_id, trace_id in lost:
            self._attempt(LIVE, partial(live.give_up, dispatch_id, trace_id), count=0)
        ended = {str(dispatch["id"]): None for event, dispatch, _ in events if event == "done"}
        pending: dict[str, Mapping[str, Any]] = {}
        deltas: dict[str, tuple[Mapping[str, Any], list[Mapping[str, Any]]]] = {}
        for event, dispatch, delta in events:
            dispatch_id = str(dispatch.get("id"))
            if event == "pending" and dispatch_id not in ended:
                pending[dispatch_id] = dispatch
            elif event == "delta" and dispatch_id not in ended:
                deltas.setdefault(dispatch_id, (dispatch, []))[1].append(delta)
        # What has passed a stage between two writes leaves no file of it: each costs more than its line.
        for dispatch_id, dispatch in pending.items():
            if not any(isinstance(delta.get("open"), Mapping) for delta in deltas.get(dispatch_id, (dispatch, []))[1]):
                self._attempt(LIVE, partial(live.pending, dispatch))
        for dispatch, several in deltas.values():
            self._attempt(LIVE, partial(live.deltas, dispatch, several), count=len(several))
        for dispatch_id in ended:
            self._attempt(LIVE, partial(live.done, dispatch_id), count=0)

    def _open_live(self) -> None:
        self._live = LiveWriter(self.traces / LIVE, float_decimals=self.config.float_decimals)

    def _attempt(self, kind: str, write: Callable[[], None], *, count: int = 1) -> bool:
        """Run ``write``; when it fails, count ``count`` things of ``kind`` as dropped and say so."""
        try:
            write()
        except Exception as error:
            with self._changed:
                self._dropped[kind] += count
            self._complain(kind, error)
            return False
        if kind in self._remind_at and time.monotonic() >= self._failed_at[kind] + RECOVERY_SECONDS:
            self._recovered(kind)
        return True

    def _complain(self, kind: str, error: Exception) -> None:
        now = self._failed_at[kind] = time.monotonic()
        if now < self._remind_at.get(kind, 0.0):
            return
        self._remind_at[kind] = now + REMIND_SECONDS
        _logger.error(
            "Cannot write %s below %s: %s. They are dropped until it works again (%d so far); the run goes on",
            kind,
            getattr(error, "filename", None) or self.traces.parent,
            error if isinstance(error, OSError) else f"{type(error).__name__}: {error}",
            self.dropped()[kind],
        )

    def _recovered(self, kind: str) -> None:
        del self._remind_at[kind]
        self._next_report = 0.0
        _logger.warning("Writing %s again; %d dropped so far", kind, self.dropped()[kind])

    def _report(self, *, last: bool) -> None:
        """Record the counts of what was dropped when they have grown, at most every ``REPORT_SECONDS``."""
        counts, now = self.dropped(), time.monotonic()
        self._flush_rows()
        if counts == self._reported or (now < self._next_report and not last):
            return
        self._next_report = now + REPORT_SECONDS
        _logger.warning("Dropped so far: %s", ", ".join(f"{n} {kind}" for kind, n in counts.items() if n))
        values = {f"monitor/dropped/{kind}": count for kind, count in counts.items()}
        row, _ = metrics_row(values, step=None, time=time.time(), producer=self.producer)
        if self._attempt(METRICS, partial(self._write, METRICS, row), count=0):
            self._reported = counts

    def _flush_rows(self) -> None:
        for kind, writer in ((EPISODES, self._episodes), (ANNOTATIONS, self._annotations)):
            if writer is not None and writer.waiting:
                self._attempt(kind, writer.flush, count=0)

    def _finish(self, *, clean: bool) -> None:
        if self._live is not None:
            self._attempt(LIVE, self._live.close, count=0)
        self._report(last=True)
        for kind, writer in ((EPISODES, self._episodes), (ANNOTATIONS, self._annotations)):
            if writer is not None:
                self._attempt(kind, partial(writer.close, clean=clean), count=0)
        self._metrics.close()


def _stamped(record: dict[str, Any], arrival: float) -> dict[str, Any]:
    """The record with ``info.kind``, ``info.dispatch`` and ``info.arrival`` on each trace where the caller set none.

    Then the step is that of the work, and a trace was dispatched when it started. The caller's objects stay as they
    are.
    """
    run = record.get("run")
    work = run.get("work") if isinstance(run, Mapping) else None
    step = work.get("step") if isinstance(work, Mapping) else None
    traces = []
    for trace in record.get("traces") or []:
        timing = trace.get("timing")
        started = timing.get("start") if isinstance(timing, Mapping) else None
        stamps = {
            "kind": episode_kind(record),
            "dispatch": {"step": step, "time": started},
            "arrival": {"step": step, "time": arrival},
        }
        traces.append({**trace, "info": {**stamps, **(trace.get("info") or {})}})
    return {**record, "traces": traces}

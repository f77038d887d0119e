"""What a component may tell a monitor. No call raises or blocks; what cannot be kept is dropped and counted."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Monitor(Protocol):
    """A sink of one producer (``orch``, ``trainer``)."""

    def log(self, metrics: Mapping[str, float], *, step: int | None) -> None:
        """One row of metrics. ``step`` None: a row keyed by wall time. Non-finite values are dropped with a warning."""

    def record_episode(self, record: dict[str, Any]) -> None:
        """One episode record (``Episode.to_record`` of verifiers, stamped), as it arrives. The caller gives it away."""

    def annotate(self, updates: Sequence[dict[str, Any]]) -> None:
        """Trace updates ``{version, trace_id, info, branches}`` of this producer."""

    def live_pending(self, dispatch: Mapping[str, Any]) -> None:
        """A dispatch (``{id, kind, env, group, task, policy_version, step, started}``) that has no trace yet."""

    def live_delta(self, dispatch: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        """A change of one trace of that dispatch, as the environment server streamed it."""

    def live_done(self, dispatch_id: str) -> None:
        """The dispatch ended, however: its live traces and its pending entry go."""

    def close(self, *, clean: bool) -> None:
        """Write what waits, for a bounded time. ``clean`` seals the streams."""


class NullMonitor:
    """Keeps nothing (``--no-monitors.file``)."""

    def log(self, metrics: Mapping[str, float], *, step: int | None) -> None: ...
    def record_episode(self, record: dict[str, Any]) -> None: ...
    def annotate(self, updates: Sequence[dict[str, Any]]) -> None: ...
    def live_pending(self, dispatch: Mapping[str, Any]) -> None: ...
    def live_delta(self, dispatch: Mapping[str, Any], delta: Mapping[str, Any]) -> None: ...
    def live_done(self, dispatch_id: str) -> None: ...
    def close(self, *, clean: bool) -> None: ...

"""Where the metrics and episodes of a run go. Observing never stops training: writers are bounded and never block."""

from prl.monitors.base import Monitor, NullMonitor

__all__ = ["Monitor", "NullMonitor"]

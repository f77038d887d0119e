"""The statistics line on the console, in the form of vLLM's, which monitors read from ``inference.log``."""

from prl.inference.metrics import EngineGauges, EngineMetrics

INTERVAL = 10.0
"""Seconds between two lines, as in vLLM."""


class StatsReporter:
    """Turns counters into rates between two calls."""

    def __init__(self, metrics: EngineMetrics, now: float) -> None:
        self._metrics = metrics
        self._at = now
        self._prompt = self._generated = self._queries = self._hits = 0
        self._was_busy = False

    def line(self, gauges: EngineGauges, now: float) -> str | None:
        """The line for the time since the last call, or None when nothing happened in it or in the one before."""
        metrics = self._metrics
        seconds = max(now - self._at, 1e-9)
        prompt = metrics.prompt_tokens - self._prompt
        generated = metrics.generation_tokens - self._generated
        queries, hits = metrics.prefix_queries - self._queries, metrics.prefix_hits - self._hits
        self._at = now
        self._prompt += prompt
        self._generated += generated
        self._queries += queries
        self._hits += hits
        busy = bool(prompt or generated or gauges.running or gauges.waiting)
        silent = not busy and not self._was_busy
        self._was_busy = busy
        if silent:
            return None
        return (
            f"Engine 000: Avg prompt throughput: {prompt / seconds:.1f} tokens/s, "
            f"Avg generation throughput: {generated / seconds:.1f} tokens/s, "
            f"Running: {gauges.running} reqs, Waiting: {gauges.waiting} reqs, "
            f"GPU KV cache usage: {100 * gauges.kv_cache_usage:.1f}%, "
            f"Prefix cache hit rate: {100 * hits / max(queries, 1):.1f}%"
        )

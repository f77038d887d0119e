"""Rows of engine metrics: every ``vllm:`` family of every engine, and its spread over the engines.

Names are ``inference/<engine>/<name>`` with the prefix removed and ``server<i>.<engine label>`` as the engine, and
``inference/agg/<name>/{min,max,sum,mean,median}``. A counter also has ``<name>:rate`` per second; a histogram is its
``_sum`` and ``_count`` with ``:mean`` and ``:rate`` over the interval. A counter that went down (its engine started
anew) gives no rate. Left out: quantiles of histograms, info metrics, and the ``_created`` times.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from prl.rundir.prometheus import MetricsPage, parse_page

_PREFIX = "vllm:"
_BY_REASON = "num_requests_waiting_by_reason"
_KV_USAGE, _OLD_KV_USAGE = "kv_cache_usage_perc", "gpu_cache_usage_perc"
_HITS, _QUERIES, _HIT_RATE = "prefix_cache_hits_total", "prefix_cache_queries_total", "prefix_cache_hit_rate"

Values = dict[str, float]


class EngineMetrics:
    """Turns successive pages of the engines into rows; keeps the counters of the previous one."""

    def __init__(self) -> None:
        self._previous: dict[str, tuple[float, Values]] = {}

    def row(self, pages: Sequence[str | None], now: float) -> dict[str, float]:
        """The row of this moment (``now`` in seconds). Empty when no engine answered: the gap is the signal."""
        engines: dict[str, Values] = {}
        for index, text in enumerate(pages):
            if text is not None:
                for label, (values, counters) in _read_page(parse_page(text)).items():
                    engine = f"server{index}.{label}"
                    engines[engine] = values | self._rates(engine, counters, now)
        row = {
            f"inference/{engine}/{name}": value for engine, values in engines.items() for name, value in values.items()
        }
        return row | _aggregate(engines)

    def _rates(self, engine: str, counters: Values, now: float) -> Values:
        previous = self._previous.get(engine)
        self._previous[engine] = (now, counters)
        if previous is None or now <= previous[0]:
            return {}
        seconds = now - previous[0]
        growth = {
            name: value - previous[1][name]
            for name, value in counters.items()
            if name in previous[1] and value >= previous[1][name]
        }
        rates: Values = {}
        for name, grown in growth.items():
            if name.endswith("_count"):
                histogram = name.removesuffix("_count")
                rates[f"{histogram}:rate"] = grown / seconds
                if grown and f"{histogram}_sum" in growth:
                    rates[f"{histogram}:mean"] = growth[f"{histogram}_sum"] / grown
            elif not name.endswith("_sum"):
                rates[f"{name}:rate"] = grown / seconds
        if growth.get(_QUERIES):
            rates[_HIT_RATE] = growth.get(_HITS, 0.0) / growth[_QUERIES]
        return rates


def _read_page(page: MetricsPage) -> dict[str, tuple[Values, Values]]:
    """Per engine label: all values, and of those the counters. Other labels are summed over."""
    engines: dict[str, tuple[Values, Values]] = defaultdict(lambda: (defaultdict(float), defaultdict(float)))
    for sample in page.samples:
        name = sample.name.removeprefix(_PREFIX)
        if name == sample.name or name.endswith(("_bucket", "_created", "_info")) or not math.isfinite(sample.value):
            continue
        values, counters = engines[sample.labels.get("engine", "0")]
        if name == _BY_REASON:
            name = f"num_requests_waiting_reason_{sample.labels.get('reason', 'unknown')}"
        values[name] += sample.value
        if name.endswith(("_total", "_sum", "_count")):
            counters[name] += sample.value
    for values, _ in engines.values():
        if _KV_USAGE not in values and _OLD_KV_USAGE in values:
            values[_KV_USAGE] = values[_OLD_KV_USAGE]
    return {label: (dict(values), dict(counters)) for label, (values, counters) in engines.items()}


def _aggregate(engines: dict[str, Values]) -> dict[str, float]:
    row: dict[str, float] = {}
    names = {name for values in engines.values() for name in values}
    for name in sorted(names):
        column = np.array([values[name] for values in engines.values() if name in values])
        head = f"inference/agg/{name}"
        row[f"{head}/min"] = float(column.min())
        row[f"{head}/max"] = float(column.max())
        row[f"{head}/sum"] = float(column.sum())
        row[f"{head}/mean"] = float(column.mean())
        row[f"{head}/median"] = float(np.median(column))
    return row

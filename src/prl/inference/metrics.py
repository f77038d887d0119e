"""Counters of the engine and the ``/metrics`` page: Prometheus text with the names and labels that vLLM uses.

A monitor made for vLLM reads this page unchanged. The gauge of the KV cache appears under its present name and under
``gpu_cache_usage_perc``, which older releases used and which people still search for. Written by hand: it is a page of
a dozen families, and a client library would bring process-wide state.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prl.inference.requests import FinishReason

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Bounds in seconds, those of vLLM's page, so that quantiles of both compare.
# fmt: off
FIRST_TOKEN_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
                      40.0, 80.0, 160.0, 640.0, 2560.0)
INTER_TOKEN_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
                      40.0, 80.0)
REQUEST_BOUNDS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
                  960.0, 1920.0, 7680.0)
# fmt: on
FINISH_REASONS: tuple[FinishReason, ...] = ("stop", "length", "abort", "error")


class Histogram:
    """Counts of observations by upper bound, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times


@dataclass
class EngineMetrics:
    """What the engine's thread counts. Other threads only read."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_queries: int = 0
    """Prompt tokens looked up among the prompts admitted with them; ``prefix_hits`` of those were found."""
    prefix_hits: int = 0
    rejected: int = 0
    finished: Counter[FinishReason] = field(default_factory=Counter)
    first_token: Histogram = field(default_factory=lambda: Histogram(FIRST_TOKEN_BOUNDS))
    inter_token: Histogram = field(default_factory=lambda: Histogram(INTER_TOKEN_BOUNDS))
    request: Histogram = field(default_factory=lambda: Histogram(REQUEST_BOUNDS))


@dataclass(frozen=True)
class EngineGauges:
    """The state of the engine at one moment."""

    running: int
    waiting: int
    paused: bool
    num_slots: int
    max_model_len: int

    @property
    def kv_cache_usage(self) -> float:
        """Share of the slots that are taken: a slot reserves its whole length, so 1.0 means that requests wait."""
        return self.running / self.num_slots


def render(metrics: EngineMetrics, gauges: EngineGauges, model_name: str) -> str:
    """The page."""
    page = _Page({"engine": "0", "model_name": model_name})
    page.gauge("num_requests_running", "Number of requests in model execution batches.", gauges.running)
    page.gauge("num_requests_waiting", "Number of requests waiting to be processed.", gauges.waiting)
    reasons = {
        "capacity": 0 if gauges.paused else gauges.waiting,
        "deferred": gauges.waiting if gauges.paused else 0,
    }
    page.family("num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason (deferred: paused).")
    for reason, number in reasons.items():
        page.sample("num_requests_waiting_by_reason", number, reason=reason)
    usage = gauges.kv_cache_usage
    page.gauge("kv_cache_usage_perc", "Share of the KV cache's slots in use. 1 means 100 percent usage.", usage)
    page.gauge("gpu_cache_usage_perc", "Older name of vllm:kv_cache_usage_perc.", usage)
    page.counter("num_preemptions_total", "Cumulative number of preemptions (a slot is never taken away).", 0)
    page.counter("prompt_tokens_total", "Number of prefill tokens processed.", metrics.prompt_tokens)
    page.counter("generation_tokens_total", "Number of generation tokens processed.", metrics.generation_tokens)
    page.counter("prefix_cache_queries_total", "Prompt tokens looked up for sharing.", metrics.prefix_queries)
    page.counter("prefix_cache_hits_total", "Prompt tokens shared with an equal prompt.", metrics.prefix_hits)
    page.family("request_success_total", "counter", "Count of processed requests by reason of their end.")
    for reason in FINISH_REASONS:
        page.sample("request_success_total", metrics.finished[reason], finished_reason=reason)
    page.family("admission_rejections_total", "counter", "Number of requests rejected by the queue limit.")
    page.sample("admission_rejections_total", metrics.rejected, reason="max_num_queued_reqs")
    page.histogram("time_to_first_token_seconds", "Time to first token in seconds.", metrics.first_token)
    page.histogram("inter_token_latency_seconds", "Inter-token latency in seconds.", metrics.inter_token)
    page.histogram("e2e_request_latency_seconds", "End to end request latency in seconds.", metrics.request)
    page.family("cache_config_info", "gauge", "Size of the KV cache: a block is a slot.")
    page.sample(
        "cache_config_info",
        1,
        block_size=str(gauges.max_model_len),
        cache_dtype="float32",
        kv_cache_size_tokens=str(gauges.num_slots * gauges.max_model_len),
        num_gpu_blocks=str(gauges.num_slots),
    )
    return page.text()


class _Page:
    """Families of the exposition format, each with its HELP and TYPE lines."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = dict(labels)
        self._lines: list[str] = []

    def family(self, name: str, kind: str, description: str) -> None:
        self._lines += [f"# HELP vllm:{name} {description}", f"# TYPE vllm:{name} {kind}"]

    def sample(self, name: str, value: float, **labels: str) -> None:
        pairs: Iterable[tuple[str, str]] = sorted({**self._labels, **labels}.items())
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in pairs)
        self._lines.append(f"vllm:{name}{{{inner}}} {float(value)!r}")

    def gauge(self, name: str, description: str, value: float) -> None:
        self.family(name, "gauge", description)
        self.sample(name, value)

    def counter(self, name: str, description: str, value: float) -> None:
        self.family(name, "counter", description)
        self.sample(name, value)

    def histogram(self, name: str, description: str, histogram: Histogram) -> None:
        self.family(name, "histogram", description)
        counts, total = list(histogram.counts), 0
        for bound, count in zip([*map(repr, histogram.bounds), "+Inf"], counts, strict=True):
            total += count
            self.sample(f"{name}_bucket", total, le=bound)
        self.sample(f"{name}_count", total)
        self.sample(f"{name}_sum", histogram.sum)

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

"""The Prometheus page and the statistics line, as monitors made for vLLM read them."""

import re

from prl.inference.metrics import EngineGauges, EngineMetrics, Histogram, render
from prl.inference.stats import StatsReporter

SAMPLE = re.compile(r'^(?P<name>vllm:\w+)\{(?P<labels>(?:\w+="(?:[^"\\]|\\.)*",?)+)\} (?P<value>\S+)$')

# What the run contract's collectors look for in vLLM's console.
STATS_LINE = re.compile(
    r"Engine (?P<eng>\d+): Avg prompt throughput: (?P<pt>[\d.]+) tokens/s, Avg generation throughput: "
    r"(?P<gt>[\d.]+) tokens/s, Running: (?P<run>\d+) reqs, Waiting: (?P<wait>\d+) reqs,.*?"
    r"GPU KV cache usage: (?P<kv>[\d.]+)%(?:, Prefix cache hit rate: (?P<hit>[\d.]+)%)?"
)


def gauges(running: int = 3, waiting: int = 2, *, paused: bool = False) -> EngineGauges:
    return EngineGauges(running, waiting, paused, num_slots=4, max_model_len=512)


def parse(page: str) -> dict[str, dict[str, float]]:
    """Family and labels (model name and engine aside) to value; every sample's family must be declared before it."""
    families: dict[str, dict[str, float]] = {}
    declared: dict[str, str] = {}
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            declared[name] = kind
            continue
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, line
        name = match["name"]
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        assert declared.get(name) or declared.get(family) == "histogram", line
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match["labels"]))
        assert labels.pop("engine") == "0"
        assert labels.pop("model_name") == r"dir/\"odd\" \\ name"
        families.setdefault(name, {})[",".join(labels.values())] = float(match["value"])
    return families


def test_the_page_holds_the_families_a_monitor_reads() -> None:
    metrics = EngineMetrics(prompt_tokens=40, generation_tokens=70, prefix_queries=40, prefix_hits=10, rejected=1)
    metrics.finished["stop"] = 5
    metrics.first_token.observe(0.015)
    metrics.inter_token.observe(0.03, times=4)
    metrics.request.observe(1e5)
    page = parse(render(metrics, gauges(), 'dir/"odd" \\ name'))
    assert page["vllm:num_requests_running"] == {"": 3}
    assert page["vllm:num_requests_waiting"] == {"": 2}
    assert page["vllm:num_requests_waiting_by_reason"] == {"capacity": 2, "deferred": 0}
    assert page["vllm:kv_cache_usage_perc"] == page["vllm:gpu_cache_usage_perc"] == {"": 0.75}
    assert page["vllm:num_preemptions_total"] == {"": 0}
    assert page["vllm:prompt_tokens_total"] == {"": 40}
    assert page["vllm:generation_tokens_total"] == {"": 70}
    assert page["vllm:request_success_total"] == {"stop": 5, "length": 0, "abort": 0, "error": 0}
    assert page["vllm:admission_rejections_total"] == {"max_num_queued_reqs": 1}
    first = page["vllm:time_to_first_token_seconds_bucket"]
    assert (first["0.01"], first["0.02"], first["+Inf"]) == (0, 1, 1)
    assert page["vllm:inter_token_latency_seconds_count"] == {"": 4}
    assert page["vllm:inter_token_latency_seconds_sum"] == {"": 0.12}
    assert page["vllm:e2e_request_latency_seconds_bucket"]["7680.0"] == 0
    assert page["vllm:e2e_request_latency_seconds_bucket"]["+Inf"] == 1
    assert list(page["vllm:cache_config_info"]) == ["512,float32,2048,4"]


def test_waiting_requests_of_a_paused_engine_are_deferred() -> None:
    page = parse(render(EngineMetrics(), gauges(paused=True), 'dir/"odd" \\ name'))
    assert page["vllm:num_requests_waiting_by_reason"] == {"capacity": 0, "deferred": 2}


def test_a_bound_belongs_to_its_bucket() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.counts == [1, 2, 1]


def test_the_statistics_line_gives_rates_since_the_last_one() -> None:
    metrics = EngineMetrics()
    reporter = StatsReporter(metrics, now=100.0)
    assert reporter.line(gauges(0, 0), 110.0) is None, "an idle engine says nothing"
    metrics.prompt_tokens += 500
    metrics.generation_tokens += 2000
    metrics.prefix_queries += 500
    metrics.prefix_hits += 125
    match = STATS_LINE.fullmatch(reporter.line(gauges(), 120.0) or "")
    assert match
    assert match.groupdict() == {
        "eng": "000",
        "pt": "50.0",
        "gt": "200.0",
        "run": "3",
        "wait": "2",
        "kv": "75.0",
        "hit": "25.0",
    }
    last = reporter.line(gauges(0, 0), 130.0)
    assert last is not None and "Avg generation throughput: 0.0 tokens/s" in last, "the end of traffic is shown once"
    assert reporter.line(gauges(0, 0), 140.0) is None

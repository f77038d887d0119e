"""Rows made of successive metrics pages."""

from prl.orchestrator.engine_metrics import EngineMetrics


def page(tokens: int, running: float, latency: tuple[float, int] = (0.0, 0), engine: str = "0") -> str:
    return (
        f'vllm:num_requests_running{{engine="{engine}"}} {running}\n'
        f'vllm:generation_tokens_total{{engine="{engine}"}} {tokens}\n'
        f'vllm:generation_tokens_created{{engine="{engine}"}} 1.7e9\n'
        f'vllm:e2e_request_latency_seconds_bucket{{engine="{engine}",le="1"}} 1\n'
        f'vllm:e2e_request_latency_seconds_sum{{engine="{engine}"}} {latency[0]}\n'
        f'vllm:e2e_request_latency_seconds_count{{engine="{engine}"}} {latency[1]}\n'
        f'vllm:num_requests_waiting_by_reason{{engine="{engine}",reason="capacity"}} 2\n'
        f'vllm:request_success_total{{engine="{engine}",finished_reason="stop"}} 3\n'
        f'vllm:request_success_total{{engine="{engine}",finished_reason="length"}} 4\n'
        f'vllm:cache_config_info{{engine="{engine}"}} 1\n'
        f'vllm:kv_cache_usage_perc{{engine="{engine}"}} 0.5\n'
        "python_info 1\n"
    )


def test_gauges_counters_and_their_spread() -> None:
    row = EngineMetrics().row([page(100, 3.0), page(300, 5.0)], now=0.0)
    assert row["inference/server0.0/num_requests_running"] == 3.0
    assert row["inference/server1.0/generation_tokens_total"] == 300
    assert row["inference/server0.0/request_success_total"] == 7
    assert row["inference/server0.0/num_requests_waiting_reason_capacity"] == 2
    spread = [row[f"inference/agg/num_requests_running/{name}"] for name in ("min", "max", "sum", "mean", "median")]
    assert spread == [3, 5, 8, 4, 4]
    assert not any(part in key for key in row for part in ("_created", "_bucket", "_info", "vllm", ":rate"))


def test_rates_are_per_second_and_a_counter_that_went_down_gives_none() -> None:
    metrics = EngineMetrics()
    metrics.row([page(100, 1.0, (1.0, 2))], now=10.0)
    row = metrics.row([page(150, 1.0, (4.0, 4))], now=12.0)
    assert row["inference/server0.0/generation_tokens_total:rate"] == 25.0
    assert row["inference/server0.0/e2e_request_latency_seconds:rate"] == 1.0
    assert row["inference/server0.0/e2e_request_latency_seconds:mean"] == 1.5
    assert row["inference/agg/generation_tokens_total:rate/sum"] == 25.0
    restarted = metrics.row([page(10, 1.0, (0.5, 1))], now=13.0)
    assert "inference/server0.0/generation_tokens_total:rate" not in restarted
    assert metrics.row([page(30, 1.0)], now=14.0)["inference/server0.0/generation_tokens_total:rate"] == 20.0


def test_an_old_name_of_the_kv_gauge_is_read_under_the_new_one() -> None:
    row = EngineMetrics().row(['vllm:gpu_cache_usage_perc{engine="0"} 0.75\n'], now=0.0)
    assert row["inference/server0.0/kv_cache_usage_perc"] == 0.75


def test_engines_that_do_not_answer_are_missing_and_none_at_all_is_no_row() -> None:
    metrics = EngineMetrics()
    row = metrics.row([None, page(1, 1.0)], now=0.0)
    assert "inference/server1.0/num_requests_running" in row
    assert not any("server0" in key for key in row)
    assert metrics.row([None, None], now=1.0) == {}


def test_non_finite_values_and_cut_pages_do_no_harm() -> None:
    text = 'vllm:num_requests_running{engine="0"} NaN\nvllm:num_requests_waiting{engine="0"} 4\nvllm:kv_cache_us'
    row = EngineMetrics().row([text], now=0.0)
    assert row["inference/server0.0/num_requests_waiting"] == 4
    assert "inference/server0.0/num_requests_running" not in row

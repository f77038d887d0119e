"""Metrics pages as engines send them, whole and damaged."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from prl.rundir.prometheus import parse_page

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \\"tiny\\" {one}"} 30.0
vllm:kv_cache_usage_perc{engine="0"} NaN
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0"} 1.5e+06 1795926725100
vllm:generation_tokens_created{engine="0"} 1.7e+09

vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf"} 7
process_open_fds 12
vllm:ratio -Inf
"""


def test_a_page_is_read_with_labels_types_and_odd_values() -> None:
    page = parse_page(PAGE)
    by_name = {sample.name: sample for sample in page.samples}
    assert by_name["vllm:num_requests_running"].labels == {"engine": "0", "model_name": 'a "tiny" {one}'}
    assert by_name["vllm:num_requests_running"].value == 30.0
    assert math.isnan(by_name["vllm:kv_cache_usage_perc"].value)
    assert by_name["vllm:generation_tokens_total"].value == 1.5e6
    assert by_name["vllm:e2e_request_latency_seconds_bucket"].labels["le"] == "+Inf"
    assert by_name["process_open_fds"].labels == {}
    assert by_name["vllm:ratio"].value == -math.inf
    assert page.types == {"vllm:num_requests_running": "gauge", "vllm:generation_tokens_total": "counter"}
    assert page.skipped == 0


def test_a_cut_last_line_is_not_trusted() -> None:
    # "1.5e+0" would read as a number, but it is the beginning of 1.5e+06
    page = parse_page(PAGE[: PAGE.index("1.5e+06") + 6])
    assert [sample.name for sample in page.samples][-1] == "vllm:kv_cache_usage_perc"
    assert page.skipped == 1


def test_unreadable_lines_are_counted_and_skipped() -> None:
    page = parse_page('good 1\nbad{a="x} 1\nworse\n3name 4\nname one\nlast 2\n')
    assert [(sample.name, sample.value) for sample in page.samples] == [("good", 1.0), ("last", 2.0)]
    assert page.skipped == 4


@given(st.text(alphabet=st.sampled_from('ab{}"=,\\ \n#1.N+Inf_:')))
@settings(max_examples=200, deadline=None)
def test_no_text_makes_the_reader_raise(text: str) -> None:
    page = parse_page(text)
    assert len(page.samples) + page.skipped <= text.count("\n") + 1

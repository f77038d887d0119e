"""From what a finding rests on to the place in the pages that shows it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up_facts import NOW, facts, judged, stands_since, steps
from prl.dashboard.evidence import link_of, series_of
from prl.watch.rules.base import series_evidence
from prl.watch.verdict import Evidence, Verdict

METRICS = "monitors/file/metrics.jsonl"


@pytest.mark.parametrize(
    ("evidence", "link"),
    [
        # a value of a metric, as rules write it
        (Evidence(METRICS, "optim/grad_norm = 12.5", step=371), ("metrics", {"key": "optim/grad_norm", "at": "371"})),
        (Evidence("metrics.jsonl", "loss/mean = 1e+04", step=2), ("metrics", {"key": "loss/mean", "at": "2"})),
        (Evidence(METRICS, "kl = -0.01"), ("metrics", {"key": "kl"})),
        (Evidence(METRICS, "a = b = 3", step=1), ("metrics", {"key": "a = b", "at": "1"})),
        (Evidence(METRICS, "entropy/all/mean = nan", step=9), ("metrics", {"key": "entropy/all/mean", "at": "9"})),
        (Evidence(METRICS, "loss/mean is not a number", step=7), ("metrics", {"key": "loss/mean", "at": "7"})),
        (Evidence(METRICS, "train/a b+c/x = 1", step=3), ("metrics", {"key": "train/a b+c/x", "at": "3"})),
        # said in words
        (Evidence(METRICS, "thrown away 0.612", step=12), ("metrics", {"at": "12"})),
        (Evidence(METRICS, "the last row of the engines", time=NOW), ("metrics", {})),
        # a line of a log
        (
            Evidence("logs/attempt_2/trainer.log", "CUDA out of memory", offset=18204),
            ("logs", {"file": "logs/attempt_2/trainer.log", "offset": "18204", "attempt": "2"}),
        ),
        (Evidence("logs/trainer.log", "x", offset=0), ("logs", {"file": "logs/trainer.log", "offset": "0"})),
        (
            Evidence("logs/attempt_1/trainer/torchrun/x/attempt_0/1/stderr.log", "E", offset=9),
            (
                "logs",
                {
                    "file": "logs/attempt_1/trainer/torchrun/x/attempt_0/1/stderr.log",
                    "offset": "9",
                    "attempt": "1",
                },
            ),
        ),
        # a configuration
        (Evidence("configs/attempt_3/environment.json", "cwd /srv"), ("configs", {"attempt": "3"})),
        (Evidence("configs/resolved", "x"), ("configs", {})),
        # episodes
        (Evidence("monitors/file/traces/stream.index.jsonl", "2112 episodes", step=40), ("traces", {"step": "40"})),
        (Evidence("monitors/file/traces/stream/00000.jsonl", "x"), ("traces", {})),
    ],
)
def test_what_the_pages_show_is_linked(evidence: Evidence, link: tuple[str, dict[str, str]]) -> None:
    assert link_of(evidence) == {"page": link[0], "params": link[1]}


@pytest.mark.parametrize(
    "source",
    [
        "launcher/status.json",
        "process 4100005 on node-1",
        "processes on node-1",
        "squeue, job 8123",
        "port 29500 on node-1",
        "checkpoints/step_20",
        "weights/step_20",
        "broadcasts/step_20",
        "trainer_step",
        "/scratch/runs",
        "/proc/meminfo",
        "http://node-1:8000",
        "rule.failed",
        "slurm-8123.out",
        "growth",
        "",
        "../logs/trainer.log",
        "logs",
        "logs/../../etc/passwd",
    ],
)
def test_what_the_pages_have_no_place_for_is_not(source: str) -> None:
    assert link_of(Evidence(source, "x = 1", offset=3, step=3)) is None


def test_a_key_that_a_text_speaks_of_is_found_among_those_of_the_verdict() -> None:
    keys = frozenset({"optim/grad_norm", "optim/grad"})
    link = link_of(Evidence(METRICS, "optim/grad_norm rose from 0.2 to 3", step=4), keys)
    assert link == {"page": "metrics", "params": {"key": "optim/grad_norm", "at": "4"}}


def test_the_keys_of_a_verdict_are_those_of_its_numbers() -> None:
    assert "optim/grad_norm" in series_of(judged(facts()))


@given(
    st.builds(
        Evidence,
        source=st.text() | st.sampled_from([METRICS, "logs/attempt_1/a.log", "configs/x"]),
        text=st.text(),
        offset=st.none() | st.integers(),
        step=st.none() | st.integers(),
    )
)
def test_no_evidence_raises_and_every_parameter_is_text(evidence: Evidence) -> None:
    link = link_of(evidence)
    assert link is None or all(isinstance(value, str) for value in link["params"].values())


def test_the_evidence_of_every_rule_is_linked_or_known_to_have_no_place() -> None:
    """What rules write is what the mapping understands: a metric's evidence always names its key or its step."""
    for verdict in (judged(stands_since(4000.0)), judged(facts())):
        assert_linked(verdict)


def assert_linked(verdict: Verdict) -> None:
    for finding in verdict.findings:
        for evidence in finding.evidence:
            link: Any = link_of(evidence, series_of(verdict))
            if evidence.source == METRICS and evidence.step is not None:
                assert link["params"]
            if evidence.source.startswith("logs/"):
                assert link["page"] == "logs"


def test_helpers_of_rules_write_what_is_understood() -> None:
    series = steps("trainer", "optim/grad_norm", [0.123456, 1e9, 3.0])
    for evidence in series_evidence(series, 3):
        link = link_of(evidence)
        assert link is not None and link["params"]["key"] == "optim/grad_norm"

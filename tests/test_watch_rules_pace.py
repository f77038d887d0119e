"""Rules about who waits for whom, engines and event loops; and where the time goes."""

import dataclasses

import pytest

from made_up_facts import NOW, Cases, check, facts, incident, judged, pipeline, polls, said, steps
from prl.watch.facts import Clock, Facts
from prl.watch.surroundings import Engine
from prl.watch.verdict import ADVICE, CRITICAL, DEGRADED, HEALTHY, WARNING

KV, WAITING = "inference/agg/kv_cache_usage_perc/max", "inference/agg/num_requests_waiting/sum"


def waits(trainer: float, orchestrator: float) -> Facts:
    """Both sides wait so many of the 10 s of a step."""
    return facts(
        steps("trainer", "time/wait_for_batch", [trainer] * 20),
        steps("trainer", "time/forward_backward", [9.0 - trainer] * 20),
        steps("orch", "time/wait_for_policy", [orchestrator] * 20),
    )


def engines_silent(age: float) -> Facts:
    base = facts()
    return dataclasses.replace(
        base, progress=dataclasses.replace(base.progress, inference=Clock(2, NOW - age, "monitors/file/metrics.jsonl"))
    )


def stale(value: float) -> Facts:
    return facts(steps("orch", "off_policy/max", [2.0] * 5 + [value] * 5))


def idle(usage: float) -> Facts:
    given = (polls(KV, [usage] * 20), polls(WAITING, [0.0] * 20))
    base = waits(6.0, 0.5)
    keys = {one.key for one in given}
    return dataclasses.replace(base, series=[*(one for one in base.series if one.key not in keys), *given])


CASES: Cases = {
    "pace.waits-for-batches": (lambda: waits(6.0, 0.5), lambda: waits(4.0, 0.5)),
    "pace.waits-for-policies": (lambda: waits(0.5, 6.0), lambda: waits(0.5, 4.0)),
    "pace.off-policy": (lambda: stale(8.0), lambda: stale(7.0)),
    "inference.saturated": (
        lambda: facts(polls(KV, [0.97] * 12), polls(WAITING, [3.0] * 12)),
        lambda: facts(polls(KV, [0.97] * 12), polls(WAITING, [3.0] * 6 + [0.0] + [3.0] * 5)),
    ),
    "inference.preempting": (
        lambda: facts(polls("inference/agg/num_preemptions_total/sum", [float(n) for n in range(20)])),
        lambda: facts(polls("inference/agg/num_preemptions_total/sum", [50.0] * 10 + [1.0] * 10)),
    ),
    "inference.silent": (lambda: engines_silent(90), lambda: engines_silent(30)),
    "inference.floor": (
        lambda: facts(
            incidents=[incident("prl.metrics_poll", "orchestrator", severity="error")], pipeline=pipeline(train=1)
        ),
        lambda: facts(incidents=[incident("prl.metrics_poll", "orchestrator", severity="error")]),
    ),
    "inference.idle": (lambda: idle(0.3), lambda: idle(0.8)),
    "loop.lag": (
        lambda: facts(polls("event_loop_lag/max", [0.1] * 10 + [30.0], 10)),
        lambda: facts(polls("event_loop_lag/max", [0.1] * 10 + [3.0], 10)),
    ),
}


@pytest.mark.parametrize("rule", CASES)
def test_speaks_and_is_silent(rule: str) -> None:
    check(CASES, rule)


def test_advice_leaves_a_run_healthy_and_is_held_back_by_an_alarm() -> None:
    known = waits(6.0, 0.5)
    verdict = judged(known)
    assert (verdict.health, verdict.exit_code, [one.kind for one in verdict.findings]) == (HEALTHY, 0, [ADVICE])
    failing = steps("orch", "train/gsm/all/has_error/mean", [0.3] * 5)
    verdict = judged(dataclasses.replace(known, series=[*known.series[:-1], failing]))
    assert (verdict.health, [one.rule for one in verdict.findings]) == (DEGRADED, ["episodes.error-rate"])
    # Which side to grow is advice as well; where the time goes stays told.
    assert verdict.bottleneck is not None and verdict.bottleneck.grow is None and verdict.bottleneck.shares


def test_steps_beside_evaluations_checkpoints_and_the_first_do_not_count() -> None:
    known = waits(6.0, 0.5)
    saved = steps("trainer", "time/save_ckpt", [1.0] * 20)
    evaluated = steps("orch", "eval/gsm/effective/agent/avg@1", [0.5] * 20)
    for series in (saved, evaluated):
        others = [one for one in known.series if one.key != series.key]
        assert judged(dataclasses.replace(known, series=[*others, series])).findings == []
    young = facts(*(steps(one.producer, one.key, one.values[-5:]) for one in known.series if one.key[:5] == "time/"))
    assert [one.rule for one in judged(young).findings] == ["pace.waits-for-batches"]
    first = dataclasses.replace(young, run=dataclasses.replace(young.run, resume_step=25))
    assert judged(first).findings == []


def test_the_wall_time_is_split_and_what_is_not_known_is_said() -> None:
    split = judged(waits(6.0, 0.5)).bottleneck
    assert split is not None
    shares = {one.cause: round(one.share, 3) for one in split.shares}
    # Of 10 s: 3 s forward and backward, 0.5 s loading, 0.8 s broadcast; 6 s of waiting as 4 : 1 : 1 of the episodes.
    assert shares == {
        "generation": 0.388,
        "training": 0.34,
        "environment": 0.097,
        "scoring": 0.097,
        "weight broadcast": 0.078,
    }
    assert sum(shares.values()) + split.unaccounted == pytest.approx(1, abs=0.01)
    assert (split.grow, split.trainer_waits, split.orchestrator_waits) == ("inference", 0.6, 0.05)


def test_without_timings_the_wait_stays_a_wait_and_gaps_stay_gaps() -> None:
    known = dataclasses.replace(
        facts(), series=[steps("trainer", "time/step", [10.0] * 8), steps("trainer", "time/wait_for_batch", [4.0] * 8)]
    )
    split = judged(known).bottleneck
    assert split is not None
    assert [(one.cause, one.share) for one in split.shares] == [("waiting for a batch", 0.4)]
    assert split.unaccounted == pytest.approx(0.6)
    assert split.orchestrator_waits is None
    assert judged(dataclasses.replace(known, series=known.series[1:])).bottleneck is None


def test_slow_environments_are_what_grows() -> None:
    slow = steps("orch", "train/agg/effective/agent/timing/agent/harness/mean", [30.0] * 20)
    known = waits(6.0, 0.5)
    others = [one for one in known.series if one.key != slow.key]
    split = judged(dataclasses.replace(known, series=[*others, slow])).bottleneck
    assert split is not None
    assert split.grow == "environments"


def test_evaluation_and_a_wait_of_both_sides_are_told_from_generation() -> None:
    base = waits(6.0, 7.0)
    inflight = [polls("dispatcher/inflight/train", [0.0, 5.0], 10), polls("dispatcher/inflight/eval", [9.0, 0.0], 10)]
    split = judged(dataclasses.replace(base, series=[*base.series, *inflight])).bottleneck
    assert split is not None
    shares = {one.cause: one.seconds for one in split.shares}
    assert shares["evaluation"] == pytest.approx(3.0, rel=0.05)  # half of the moments
    assert shares["waiting for a policy"] == pytest.approx(3.0, rel=0.05)  # 6 + 7 of 10 s: 3 s of them both waited


def test_a_loop_that_is_late_by_tens_of_seconds_is_degraded_before_it_stops() -> None:
    warning = said(facts(polls("event_loop_lag/max", [0.1, 30.0], 10)), "loop.lag")
    critical = said(facts(polls("event_loop_lag/max", [0.1, 90.0], 10)), "loop.lag")
    assert warning is not None
    assert critical is not None
    assert (warning.severity, critical.severity) == (WARNING, CRITICAL)
    assert "the orchestrator wakes up to 30.0s late" in warning.message
    server = said(facts(polls("env_server/gsm/event_loop_lag/p99", [1.5] * 4, 10)), "loop.lag")
    assert server is not None
    assert "environment server gsm" in server.message


def test_an_engine_that_refuses_is_named() -> None:
    engines = [Engine("server0", "http://h:8100/metrics", "gone", NOW - 1), Engine("server1", "x", "alive", NOW - 1)]
    finding = said(facts(engines=engines), "inference.silent")
    assert finding is not None
    assert (finding.severity, "server0 refuses" in finding.message) == (WARNING, True)
    gone = said(facts(engines=engines[:1]), "inference.silent")
    assert gone is not None
    assert gone.severity == CRITICAL

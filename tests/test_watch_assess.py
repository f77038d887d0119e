"""The verdict as a whole: it is given on any facts, and its critical findings lead somewhere."""

import dataclasses
import random
import types
import typing
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from made_up_facts import NOW, facts, incident, job, judged, mark, names_a_place, polls, stands_since, steps
from prl.watch import render
from prl.watch.assess import RULE_FAILED, assess
from prl.watch.facts import Facts, NonFinite, Series
from prl.watch.keys import STABILITY_KEYS
from prl.watch.rules import RULES, document
from prl.watch.verdict import CRITICAL, DEGRADED, DOWN, FINISHED, HEALTHS, HEALTHY, WARNING

KEYS = sorted(
    {one.key for one in facts().series} | STABILITY_KEYS | {"", "train", "train/x/all", "eval/x/effective/a/avg@1"}
)
WORDS = {
    "kind": [
        "rl",
        "sft",
        "eval",
        "trainer_done",
        "orchestrator_done",
        "hold",
        "gate_closed",
        "trainer_wait",
        "no_space",
        "rank",
    ],
    "state": [
        "alive",
        "gone",
        "exited",
        "unknown",
        "RUNNING",
        "PENDING",
        "FAILED",
        "PREEMPTED",
        "half",
        "stuck",
        "damaged",
    ],
    "phase": ["starting", "running", "stopping", "finished", "failed", "stopped"],
    "component": ["trainer", "orchestrator", "inference", "envs/train/x", "launcher"],
    "name": ["trainer", "orchestrator", "inference", "env server x"],
    "producer": ["trainer", "orch"],
    "severity": ["fatal", "error", "warn", "info"],
    "key": KEYS,
    **{key: ["logs/attempt_1/trainer.log", "monitors/file/metrics.jsonl"] for key in ("file", "source", "path")},
    "signature": [
        "cuda.oom",
        "nccl.watchdog",
        "env.no_workers",
        "prl.zero_out",
        "slurm.nodefail",
        "gpu.xid",
        "slurm.task_exit",
    ],
}
TEXTS = ["", "x", "Holding batch 3 until inference applies policy v9", "Still waiting for a batch after 60s", "a/b.log"]
MOMENTS = [NOW, NOW - 1, NOW - 70, NOW - 700, NOW - 90_000, NOW + 5, 0.0]
NUMBERS = [0.0, 0.2, 0.97, 1.0, 40.0, -3.0, 1e-300, 1e300, -1e300]


def anything(hint: Any, made: random.Random, name: str = "") -> Any:
    """A value of a type as facts have them; lists of one record need not be of one length."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = next(part for part in arguments if part is not types.NoneType)
        return None if made.random() < 0.4 else anything(inner, made, name)
    if origin is list:
        most = made.choice([0, 1, 3]) if dataclasses.is_dataclass(arguments[0]) else made.choice([0, 1, 3, 30])
        return [anything(arguments[0], made, name) for _ in range(most)]
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        given = {key: anything(value, made, key) for key, value in hints.items() if key != "schema_version"}
        return typing.cast(Any, hint)(**given)
    simple: dict[Any, list[Any]] = {
        bool: [True, False],
        int: [0, 1, 2, 30, 4711, -9, 2**40],
        float: [*MOMENTS, *NUMBERS],
    }
    return made.choice(simple[hint] if hint in simple else WORDS.get(name, TEXTS))


def evened(series: Series) -> Series:
    least = min(len(series.steps), len(series.times), len(series.values))
    return dataclasses.replace(
        series, steps=series.steps[:least], times=series.times[:least], values=series.values[:least]
    )


# Facts are drawn from a seed: shrinking trees of that size takes minutes and tells little more.
MANY = settings(max_examples=300, deadline=None, phases=[Phase.explicit, Phase.generate])
SEEDS = st.integers(0, 2**32)


@MANY
@given(SEEDS)
def test_any_facts_have_a_verdict(seed: int) -> None:
    known = anything(Facts, random.Random(seed))
    verdict = assess(known)
    assert verdict.health in HEALTHS
    assert 0 <= verdict.exit_code <= 3
    assert render(verdict).endswith("\n")
    even = assess(dataclasses.replace(known, series=[evened(series) for series in known.series]))
    assert [one for one in even.findings if one.severity == CRITICAL and not names_a_place(one)] == []


@MANY
@given(SEEDS)
def test_no_rule_fails_on_a_run_of_which_parts_are_odd(seed: int) -> None:
    made = random.Random(seed)
    hints = typing.get_type_hints(Facts)
    names = made.sample(sorted(set(hints) - {"schema_version", "as_of"}), made.randint(0, 4))
    known = dataclasses.replace(facts(), **{name: anything(hints[name], made, name) for name in names})
    verdict = assess(known)
    assert [one.message for one in verdict.findings if one.rule == RULE_FAILED] == []
    assert assess(Facts.from_json(known.to_json())) == verdict


def test_a_run_without_anything_unusual_is_healthy_and_has_nothing_to_say() -> None:
    verdict = judged(facts())
    assert (verdict.health, verdict.findings, verdict.reason) == (HEALTHY, [], None)


def test_a_run_that_finished_with_a_loss_that_is_no_number_is_degraded() -> None:
    done = [
        mark("trainer_done", "trainer", "RL trainer finished", 60),
        mark("orchestrator_done", "orchestrator", "Orchestrator finished", 60),
    ]
    loss = steps("trainer", "loss/mean", [0.1] * 9 + [None])
    known = facts(loss, marks=done, processes=[])
    line = NonFinite("loss/mean", "trainer", 30, NOW - 1, "logs/attempt_1/trainer.log", 10)
    dropped = dataclasses.replace(known, nonfinite=[line])
    assert (judged(known).phase, judged(known).health) == (FINISHED, HEALTHY)  # missing is not "no number"
    assert (judged(dropped).health, judged(dropped).findings[0].rule) == (DEGRADED, "training.non-finite")


def test_what_explains_the_rest_comes_first() -> None:
    known = stands_since(1000, jobs=[job()], incidents=[incident("nccl.watchdog", "trainer")])
    assert [one.rule for one in judged(known).findings][:2] == ["incident.known", "progress.stalled"]


def test_rules_have_distinct_ids_and_documentation() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(part for rule in RULES for part in dataclasses.astuple(document(rule)))


def test_a_cause_stands_before_what_it_explains() -> None:
    """Who is held by a signal needs to be let go, not restarted: that he stands still follows from it."""
    held = [dataclasses.replace(one, stopped=[7] if one.name == "trainer" else []) for one in facts().processes]
    moves = judged(facts(processes=held))
    assert [(one.rule, one.severity) for one in moves.findings] == [("process.stopped", WARNING)]
    stands = judged(dataclasses.replace(stands_since(300.0), processes=held))
    assert [one.rule for one in stands.findings][:2] == ["process.stopped", "progress.stalled"]
    assert {one.severity for one in stands.findings[:2]} == {CRITICAL}
    assert (stands.health, "kill -CONT 7" in (stands.findings[0].action or "")) == (DOWN, True)


def test_workers_that_end_stand_before_the_episodes_that_fail_with_them() -> None:
    known = facts(
        polls("env_server/gsm/restarts", [0.0, 3.0, 9.0], 10),
        steps("orch", "train/gsm/all/has_error/mean", [0.01] * 5 + [0.95] * 3),
        steps("orch", "train/gsm/all/agent/is_trainable/mean", [0.9] * 5 + [0.02] * 3),
    )
    told = [one.rule for one in judged(known).findings if one.severity == CRITICAL]
    assert told[0] == "process.worker-gone"
    assert {"episodes.error-rate", "episodes.no-signal"} <= set(told)

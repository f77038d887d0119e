"""Facts made by hand: a healthy run in its 30th step, and what is changed of it."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from prl.watch.assess import assess
from prl.watch.facts import (
    ALIVE,
    Broadcast,
    Clock,
    Disk,
    Facts,
    Log,
    Mark,
    Pipeline,
    Process,
    Progress,
    RunIdentity,
    Series,
)
from prl.watch.surroundings import CheckpointFact, Incident, Memory, SlurmJob
from prl.watch.thresholds import DEFAULT, Thresholds
from prl.watch.verdict import Finding, Verdict

NOW = 1_795_950_000.0
STEPS = 30
SECONDS = 10.0
"""A step."""

HEALTHY = {
    ("trainer", "time/step"): 10.0,
    ("trainer", "time/wait_for_batch"): 2.0,
    ("trainer", "time/load_data"): 0.5,
    ("trainer", "time/forward_backward"): 6.5,
    ("trainer", "time/broadcast_weights"): 0.8,
    ("trainer", "time/save_ckpt"): 0.0,
    ("trainer", "optim/grad_norm"): 0.25,
    ("trainer", "mismatch_kl/all/mean"): 0.002,
    ("trainer", "entropy/all/mean"): 1.0,
    ("trainer", "is_masked/mean"): 0.002,
    ("trainer", "loss/mean"): 0.001,
    ("orch", "time/step"): 10.0,
    ("orch", "time/wait_for_policy"): 1.0,
    ("orch", "off_policy/max"): 2.0,
    ("orch", "off_policy/dropped"): 0.0,
    ("orch", "progress/rollouts"): 64.0,
    ("orch", "train/agg/effective/agent/timing/agent/model/mean"): 4.0,
    ("orch", "train/agg/effective/agent/timing/agent/harness/mean"): 1.0,
    ("orch", "train/agg/effective/agent/timing/scoring/mean"): 1.0,
    **{
        ("orch", f"train/{env}/{key}"): value
        for env in ("agg", "gsm")
        for key, value in {
            "all/has_error/mean": 0.01,
            "all/dispatch_failure/mean": 0.0,
            "all/cancelled/mean": 0.0,
            "all/num_total_tokens/mean": 300.0,
            "all/agent/is_truncated/mean": 0.02,
            "all/agent/is_timeout/mean": 0.0,
            "all/agent/is_trainable/mean": 0.9,
            "all/agent/solved_none": 0.1,
            "all/agent/solved_all": 0.1,
            "effective/num_total_tokens/mean": 300.0,
        }.items()
    },
}
POLLS = {
    "inference/agg/kv_cache_usage_perc/max": 0.7,
    "inference/agg/num_requests_waiting/sum": 1.0,
    "inference/agg/num_preemptions_total/sum": 3.0,
    "event_loop_lag/p99": 0.01,
    "event_loop_lag/max": 0.05,
    "env_server/gsm/workers": 4.0,
    "env_server/gsm/restarts": 0.0,
    "env_server/gsm/event_loop_lag/max": 0.1,
}


def steps(producer: str, key: str, values: Sequence[float | None]) -> Series:
    """Values of the last steps, the newest that of step 30."""
    first = STEPS - len(values) + 1
    numbers: list[int | None] = list(range(first, STEPS + 1))
    times = [NOW - 1 - SECONDS * (len(values) - 1 - index) for index in range(len(values))]
    return Series(producer, key, numbers, times, list(values))


def polls(key: str, values: Sequence[float | None], every: float = 5.0) -> Series:
    """Values by the clock, the newest 2 s old."""
    times = [NOW - 2 - every * (len(values) - 1 - index) for index in range(len(values))]
    return Series("orch", key, [None] * len(values), times, list(values))


def facts(*series: Series, **changes: Any) -> Facts:
    """The healthy run with these series in the place of their namesakes, and these fields changed."""
    known = {name: steps(*name, [value] * STEPS) for name, value in HEALTHY.items()}
    known |= {("orch", key): polls(key, [value] * 20) for key, value in POLLS.items()}
    known |= {(one.producer, one.key): one for one in series}
    clock = Clock(STEPS, NOW - 1, "monitors/file/metrics.jsonl", NOW - 1)
    base = Facts(
        as_of=NOW,
        host="node-0",
        run=RunIdentity("run", "/runs/run", "rl", "C", max_steps=100, max_off_policy_steps=8, checkpoint_interval=10),
        attempt=1,
        attempts=[1],
        attempt_started=NOW - STEPS * SECONDS - 60,
        configured=True,
        launched=True,
        processes=[process(name) for name in ("inference", "orchestrator", "trainer")],
        progress=Progress(
            trainer=clock,
            orchestrator=clock,
            policy=Clock(STEPS, NOW - 1, "monitors/file/metrics.jsonl", NOW - 1),
            episodes=Clock(2000, NOW - 1, "monitors/file/traces/stream.index.jsonl", NOW - 1),
            pipeline=Clock(40, NOW - 3, "logs/attempt_1/orchestrator.log", NOW - 3),
            inference=Clock(2, NOW - 2, "monitors/file/metrics.jsonl", NOW - 2),
            median_step=SECONDS,
        ),
        pipeline=pipeline(),
        logs=[Log(name, f"logs/attempt_1/{name}.log", 1000, NOW, 0) for name in ("trainer", "orchestrator")],
        series=list(known.values()),
        disk=Disk("/runs", 500 * 1024**3, 1000 * 1024**3),
        memory=Memory(64 * 1024**3, 32 * 1024**3),
    )
    return dataclasses.replace(base, **changes)


def process(name: str, **changes: Any) -> Process:
    log = f"logs/attempt_1/{name}.log"
    base = Process(name, f"PRL::{name.title()}", 100 + len(name), "node-0", ALIVE, NOW - 1000, log, NOW)
    return dataclasses.replace(base, **changes)


def pipeline(train: int = 40, evaluation: int = 0, age: float = 3.0) -> Pipeline:
    text = f"Train batch 10/64 (15.6%); {train + evaluation} inflight episodes (train={train}, eval={evaluation})"
    return Pipeline(NOW - age, 10, 64, train, evaluation, "logs/attempt_1/orchestrator.log", 5000, text)


def mark(kind: str, component: str, text: str, age: float, offset: int = 9000) -> Mark:
    return Mark(kind, component, f"logs/attempt_1/{component}.log", offset, NOW - age, text)


def incident(signature: str, component: str, *, age: float = 5.0, severity: str = "fatal", **changes: Any) -> Incident:
    file = f"logs/attempt_1/{component}.log"
    base = Incident(
        signature, severity, component, file, 777, f"a line that tells of {signature}", "its cause", "its fix"
    )
    return dataclasses.replace(base, **{"time": NOW - age, "last_time": NOW - age, **changes})


def job(state: str = "RUNNING", **changes: Any) -> SlurmJob:
    base = SlurmJob("4711", state, NOW - 5, "squeue", submitted=NOW - 2000, started=NOW - 1000)
    return dataclasses.replace(base, **changes)


def checkpoint(step: int, state: str, age: float = 500.0) -> CheckpointFact:
    return CheckpointFact(step, f"checkpoints/step_{step}", state, 1000, NOW - age)


def stands_since(age: float, **changes: Any) -> Facts:
    """The run of which no counter has advanced for ``age`` seconds."""
    base = facts()
    stood = {
        name: dataclasses.replace(getattr(base.progress, name), time=NOW - age)
        for name in ("trainer", "orchestrator", "policy", "episodes")
    }
    return dataclasses.replace(base, progress=dataclasses.replace(base.progress, **stood), **changes)


def broadcast(version: int, *ages: float) -> Broadcast:
    """A broadcast with its markers in order, as old as given; the others are not there."""
    times = [NOW - age for age in ages]
    offered, accepted, started, finished = (times[index] if index < len(times) else None for index in range(4))
    return Broadcast(version, offered, accepted, started, finished, f"broadcasts/step_{version}")


Cases = dict[str, tuple[Callable[[], Facts], Callable[[], Facts]]]
"""For each rule facts on which it speaks, and some that are close to them on which it is silent."""


def judged(known: Facts, thresholds: Thresholds = DEFAULT) -> Verdict:
    return assess(known, thresholds)


def said(known: Facts, rule: str, thresholds: Thresholds = DEFAULT) -> Finding | None:
    return next((one for one in judged(known, thresholds).findings if one.rule == rule), None)


def check(cases: Cases, rule: str) -> None:
    """The rule speaks on the one, with evidence that names a place and with what to do, and not on the other."""
    speaks, silent = cases[rule]
    finding = said(speaks(), rule)
    assert finding is not None, [one.rule for one in judged(speaks()).findings]
    assert finding.evidence
    assert all(names_a_place(finding) for finding in judged(speaks()).findings)
    assert finding.action
    assert said(silent(), rule) is None


def names_a_place(finding: Finding) -> bool:
    """Whether its evidence leads somewhere: a byte of a file, a step, a moment, a process or a job."""
    return any(
        evidence.source
        and (
            evidence.offset is not None
            or evidence.step is not None
            or evidence.time is not None
            or evidence.source.startswith("process")
            or ", job " in evidence.source
        )
        for evidence in finding.evidence
    )

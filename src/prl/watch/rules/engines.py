"""Rules about the inference engines: full, preempting, or silent."""

from itertools import pairwise

from prl.rundir.status import STOPPING
from prl.text.human import format_duration, format_percent
from prl.watch.facts import Series
from prl.watch.rules.base import Rule, incident_evidence, series_evidence
from prl.watch.statistics import is_open
from prl.watch.surroundings import Engine
from prl.watch.verdict import ADVICE, CRITICAL, INFO, LIVE, WARNING, WORKING, Evidence, Finding
from prl.watch.view import View

_KV = "inference/agg/kv_cache_usage_perc/max"
_WAITING = "inference/agg/num_requests_waiting/sum"
_PREEMPTED = "inference/agg/num_preemptions_total/sum"
_FLOOR = ("prl.metrics_poll",)


def saturated(view: View) -> Finding | None:
    """The engines' KV cache is full and requests wait for it.

    Needs: `inference/agg/kv_cache_usage_perc/max` and `inference/agg/num_requests_waiting/sum`, recorded every few
    seconds.
    Speaks: when for {engines.polls} polls in a row more than {engines.kv_usage:.0%} of a cache was used and requests
    waited, until 3 polls in a row were not so.
    Silent: when requests wait without a full cache (then the engines are merely busy), and when rows are missing.
    """
    usage, waiting = view.orchestrator(_KV), view.orchestrator(_WAITING)
    if usage is None or waiting is None or not _recent(view, usage):
        return None
    limits = view.limits.engines
    queue = dict(zip(waiting.times, waiting.values, strict=False))
    flags = [
        None if value is None or queue.get(time) is None else value > limits.kv_usage and bool(queue[time])
        for time, value in zip(usage.times, usage.values, strict=False)
    ]
    if not is_open(flags, (limits.polls, limits.polls), 3):
        return None
    return Finding(
        rule="inference.saturated",
        severity=WARNING,
        message=f"The engines are full: {format_percent(usage.last or 0.0)} of the KV cache is used and "
        f"{waiting.last or 0.0:.0f} requests wait",
        evidence=[*series_evidence(usage, 2), *series_evidence(waiting, 2)],
        cause="more episodes are in flight than the engines have room for, or answers have become longer",
        action="Lower orchestrator.concurrency.max_inflight, give the engines more memory, or add engines.",
    )


def preempting(view: View) -> Finding | None:
    """The engines preempt requests: they throw work away and do it again.

    Needs: `inference/agg/num_preemptions_total/sum`.
    Speaks: when more than {engines.preemptions:g} requests a minute were preempted over the recorded rows (the last
    minutes).
    Silent: on a few, and across the restart of an engine, whose counter begins anew.
    """
    series = view.orchestrator(_PREEMPTED)
    if series is None or not _recent(view, series):
        return None
    known = [(time, value) for time, value in zip(series.times, series.values, strict=False) if value is not None]
    added = sum(max(later[1] - earlier[1], 0.0) for earlier, later in pairwise(known))
    minutes = (known[-1][0] - known[0][0]) / 60 if known else 0.0
    if minutes < 0.5 or added / minutes <= view.limits.engines.preemptions:
        return None
    return Finding(
        rule="inference.preempting",
        severity=WARNING,
        message=f"The engines preempted {added:.0f} requests in {format_duration(60 * minutes)}",
        evidence=[*series_evidence(series)],
        cause="the KV cache is too small for the requests in flight",
        action="Lower orchestrator.concurrency.max_inflight or the length of answers, or give the engines more memory.",
    )


def silent(view: View) -> Finding | None:
    """The engines do not answer: critical when none does for long, else a warning.

    Needs: the rows of the engines, recorded every few seconds in this attempt, and the engines' own addresses where
    they can be asked from here.
    Speaks: when an engine refuses connections, and when no row came for {engines.silent:.0f} s (critical:
    {engines.silent_long:.0f} s, if no episode arrived meanwhile either) though there were some before and the
    orchestrator still writes its pipeline line.
    Silent: before the first row, in runs whose writer keeps such rows elsewhere, while weights are applied, when the
    orchestrator is silent too, and once the work is done or the launcher ends the run: engines are then told to end.
    """
    launcher = view.facts.launcher
    if view.work_done or (launcher is not None and launcher.phase == STOPPING):
        return None
    refused = [engine for engine in view.facts.engines if engine.state == "gone"]
    last = view.facts.progress.inference.time
    age = view.facts.as_of - last if last is not None else None
    limits = view.limits.engines
    quiet = age is not None and age > limits.silent and view.pipeline_is_fresh
    if not refused and not quiet:
        return None
    episodes = view.facts.progress.episodes.time or 0.0
    dead = quiet and age is not None and age > limits.silent_long and episodes < (last or 0.0) + limits.silent
    everyone = bool(refused) and len(refused) == len(view.facts.engines)
    named = ", ".join(engine.name for engine in refused)
    said = [f"{named} refuse{'s' if len(refused) == 1 else ''} connections"] if refused else []
    said += [f"no engine has answered the orchestrator for {format_duration(age)}"] if quiet and age is not None else []
    return Finding(
        rule="inference.silent",
        severity=CRITICAL if dead or everyone else WARNING,
        message=f"Engines do not answer: {'; '.join(said)}",
        evidence=[*(_engine_evidence(view, engine) for engine in refused[:3]), *_last_row(view, quiet)],
        cause="the engine crashed, hangs, or is overloaded",
        action="Read the end of logs/latest/inference.log: the first error after the last good line counts.",
    )


def at_the_floor(view: View) -> Finding | None:
    """Concurrency is stuck at its floor, because the engines' metrics cannot be read.

    Needs: the pipeline line, and the orchestrator's line about a failed poll of engine metrics.
    Speaks: when such polls fail within the last stall bound and one episode at most is in flight: the controller does
    not grow without metrics.
    Silent: when episodes are in flight, or no poll failed.
    """
    pipeline = view.facts.pipeline
    failed = [
        one
        for one in view.incidents(*_FLOOR)
        if one.last_time is not None and view.facts.as_of - one.last_time <= view.stall_bound
    ]
    if not failed or pipeline is None or pipeline.inflight_train is None or pipeline.inflight_train > 1:
        return None
    return Finding(
        rule="inference.floor",
        severity=WARNING,
        message=f"Only {pipeline.inflight_train} episode is in flight, and polls of the engines' metrics fail",
        evidence=[
            incident_evidence(failed[0]),
            Evidence(pipeline.file, pipeline.text, offset=pipeline.offset, time=pipeline.time),
        ],
        cause="the concurrency controller does not grow while it has no metrics",
        action="See why the engines' /metrics cannot be reached, or set orchestrator.concurrency.initial_inflight.",
    )


def idle(view: View) -> Finding | None:
    """Engines have room while the trainer waits for them.

    Needs: `inference/agg/kv_cache_usage_perc/max`, `inference/agg/num_requests_waiting/sum` and the split of the wall
    time.
    Speaks: as advice, when no request waited and less than half of every cache was used over the recorded rows (the
    last minutes) while the trainer waits for batches most of the time.
    Silent: while an alarm is active, and when the split says that another side holds up the run.
    """
    usage, waiting, split = view.orchestrator(_KV), view.orchestrator(_WAITING), view.bottleneck
    if usage is None or waiting is None or split is None or not _recent(view, usage):
        return None
    full = [value for value in usage.values if value is not None]
    if split.grow != "inference" or len(full) < 10 or max(full) >= 0.5 or any(waiting.values):
        return None
    return Finding(
        rule="inference.idle",
        severity=INFO,
        kind=ADVICE,
        message=f"The engines have room ({format_percent(max(full))} of the KV cache at most) and the trainer waits",
        evidence=series_evidence(usage, 2),
        cause="fewer episodes are in flight than the engines could hold",
        action="Raise orchestrator.concurrency.max_inflight before adding engines.",
    )


def _recent(view: View, series: Series) -> bool:
    return bool(series.times) and view.facts.as_of - series.times[-1] <= view.limits.engines.silent_long


def _engine_evidence(view: View, engine: Engine) -> Evidence:
    text = f"{engine.name}: {engine.problem or engine.state}"
    return Evidence(engine.source, text, time=engine.as_of or view.facts.as_of)


def _last_row(view: View, quiet: bool) -> list[Evidence]:
    clock = view.facts.progress.inference
    if not quiet:
        return []
    return [Evidence(clock.source or "monitors/file/metrics.jsonl", "the last row of the engines", time=clock.time)]


RULES = (
    Rule("inference.silent", silent, WORKING),
    Rule("inference.saturated", saturated, WORKING),
    Rule("inference.preempting", preempting, WORKING),
    Rule("inference.floor", at_the_floor, LIVE),
    Rule("inference.idle", idle, WORKING),
)

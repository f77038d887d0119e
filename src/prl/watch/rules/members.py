"""Rules about what lives below a component: ranks of the trainer, workers of environment servers."""

from prl.rundir.metrics.reader import ORCHESTRATOR
from prl.watch.rules.base import Rule, incident_evidence, restart, series_evidence
from prl.watch.verdict import CRITICAL, FAILING, LIVE, WARNING, Evidence, Finding
from prl.watch.view import View, env_of

_NO_WORKERS = ("env.no_workers", "env.pool_fatal")
_WORKER_ENDED = ("env.worker_exit", "env.worker_died_old")
_MOST_RANKS = 64
"""Ranks on one host that are looked for by number."""
_NAMED = 8
_SETTLED = 120.0
"""Seconds after the start of a process in which its ranks may still be coming up."""


def rank_gone(view: View) -> Finding | None:
    """A rank of the trainer is gone while its parent lives.

    Needs: the process table of the trainer's host, and how many ranks it was told to start there.
    Speaks: when fewer ranks live than were to be started, two minutes after the start, with the ranks that are missing.
    Silent: on other hosts, in the first two minutes, and while a rank cannot be counted.
    """
    for process in view.facts.processes:
        ranks = [member for member in process.members if member.kind == "rank" and member.state != "zombie"]
        if process.expected is None or not process.members or len(ranks) >= process.expected:
            continue
        if process.as_of - process.started <= _SETTLED:
            continue
        known = {member.index for member in ranks}
        missing = [str(index) for index in range(min(process.expected, _MOST_RANKS)) if index not in known]
        named = f" (missing: {', '.join(missing[:_NAMED])})" if None not in known and missing else ""
        return Finding(
            rule="process.rank-gone",
            severity=CRITICAL,
            message=f"{process.name} has {len(ranks)} of {process.expected} ranks{named}",
            evidence=[
                Evidence(f"process {process.pid} on {process.host}", f"{len(ranks)} ranks below it", time=process.as_of)
            ],
            cause="the rank crashed and its parent has not noticed yet; the others wait for it in a collective",
            action=f"Read the rank's own log (logs/latest/trainer/torchrun). {restart(view)}",
        )
    return None


def worker_gone(view: View) -> Finding | None:
    """Workers of an environment server end: critical when none is left.

    Needs: `env_server/<env>/workers` and `env_server/<env>/restarts`, or the lines that tell of a worker's end.
    Speaks: when the number of workers is below that at the beginning of the recorded rows, when workers were
    restarted within the recorded rows (the last minutes), when a log tells of a worker's end within the stall bound,
    and when a log says that no worker is left.
    Silent: once the number is restored and no restart was recorded for some minutes.
    """
    none_left = view.incidents(*_NO_WORKERS)
    if none_left and none_left[-1].time is not None and not _after(view, none_left[-1].time):
        none_left = []
    said = [
        one
        for one in view.incidents(*_WORKER_ENDED)
        if one.last_time is not None and view.facts.as_of - one.last_time <= view.stall_bound
    ]
    lines, evidence = [], []
    for series in view.facts.series:
        parts = series.key.split("/")
        values = [value for value in series.values if value is not None]
        if (
            series.producer != ORCHESTRATOR
            or parts[0] != "env_server"
            or len(values) < 2
            or not _fresh(view, series.times)
        ):
            continue
        if parts[-1] == "workers" and values[-1] < max(values):
            lines.append(f"{env_of(series)} has {values[-1]:.0f} of {max(values):.0f} workers")
        elif parts[-1] == "restarts" and values[-1] > values[0]:
            count = values[-1] - values[0]
            lines.append(f"{env_of(series)} had {count:.0f} worker{'s' * (count > 1)} restarted")
        else:
            continue
        evidence += series_evidence(series)
    if not lines and not said and not none_left:
        return None
    # The counters say how many are left, the log how they ended: both, whichever is there first.
    text = "; ".join([*lines, *(one.text for one in (said or none_left)[:1])])
    return Finding(
        rule="process.worker-gone",
        severity=CRITICAL if none_left else WARNING,
        message=f"Workers of an environment end: {text}",
        evidence=evidence + [incident_evidence(one) for one in (*none_left, *said)][:3],
        cause=(none_left or said)[0].cause
        if none_left or said
        else "a crash in the environment's code, or the kernel killed them for want of memory",
        action=f"Read the environment's log (logs/latest/envs/). {restart(view) if none_left else ''}".rstrip(),
    )


def _after(view: View, time: float) -> bool:
    """Whether nothing advanced since."""
    return view.last_step is None or time >= view.last_step


def _fresh(view: View, times: list[float]) -> bool:
    return bool(times) and view.facts.as_of - times[-1] <= 300.0


RULES = (
    Rule("process.rank-gone", rank_gone, (*LIVE, FAILING)),
    Rule("process.worker-gone", worker_gone, LIVE, explains=("episodes", "progress.stalled", "progress.no-step")),
)

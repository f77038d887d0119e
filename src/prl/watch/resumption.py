"""Whether a run that was started again does its work: a later attempt, its processes up, a counter that advanced in it.

Applying the first policy version is no progress: the trainer sends the weights of the checkpoint before it trains.
"""

from dataclasses import dataclass, field

from prl.text.human import format_duration
from prl.watch import facts as states
from prl.watch import verdict as healths
from prl.watch.conditions import FAILS, HOLDS, UNKNOWN, Condition
from prl.watch.facts import Facts
from prl.watch.verdict import FINISHED, LIVE, QUEUED, REQUEUED, Evidence, Verdict
from prl.watch.words import utc_words

RESUMED = "resumed"
NOT_YET = "not yet"
NOT_RESUMED = "not resumed"
RESULTS = (RESUMED, NOT_YET, NOT_RESUMED, UNKNOWN)
"""In the order of the exit status of ``prl status --since-restart``."""

_COUNTERS = (("trainer", "step"), ("orchestrator", "shipped batch"), ("episodes", "episodes"))


@dataclass(frozen=True)
class Resumption:
    """What became of a restart."""

    as_of: float
    run: str
    run_dir: str
    attempt: int | None
    phase: str
    health: str
    step: int | None
    max_steps: int | None
    resume_step: int | None
    """None: it began from scratch, or nothing says."""
    result: str
    """``resumed``, ``not yet``, ``not resumed`` or ``unknown``."""
    conditions: list[Condition] = field(default_factory=list)
    endless: bool = False
    """Whether the run was configured to have no last step."""

    @property
    def exit_code(self) -> int:
        return RESULTS.index(self.result)


def resumption(facts: Facts, verdict: Verdict) -> Resumption:
    """Whether the newest attempt took up the work. ``verdict`` is the one on the same facts."""
    conditions = [_attempt(facts), _processes(facts, verdict), _progress(facts, verdict), _health(verdict)]
    return Resumption(
        as_of=facts.as_of,
        run=facts.run.name,
        run_dir=facts.run.dir,
        attempt=facts.attempt,
        phase=verdict.phase,
        health=verdict.health,
        step=verdict.step,
        max_steps=facts.run.max_steps,
        resume_step=facts.run.resume_step,
        result=_result(verdict, conditions),
        conditions=conditions,
        endless=facts.run.endless,
    )


def _result(verdict: Verdict, conditions: list[Condition]) -> str:
    _, processes, progress, health = conditions
    if verdict.phase == FINISHED and progress.state == HOLDS:
        return RESUMED
    if verdict.phase in (QUEUED, REQUEUED):
        return NOT_YET
    if verdict.phase not in LIVE and verdict.health != healths.UNKNOWN:
        return NOT_RESUMED
    if FAILS in (processes.state, health.state):
        return NOT_RESUMED
    if UNKNOWN in (processes.state, health.state, progress.state):
        return UNKNOWN
    return RESUMED if progress.state == HOLDS else NOT_YET


def _attempt(facts: Facts) -> Condition:
    name, attempt = "later attempt", facts.attempt
    earlier = [number for number in facts.attempts if attempt is not None and number < attempt]
    began = f", begun {utc_words(facts.attempt_started)}" if facts.attempt_started is not None else ""
    step = facts.run.resume_step
    origin = f", from the checkpoint of step {step}" if step is not None else ", from scratch"
    if earlier:
        return Condition(name, HOLDS, f"attempt {attempt}, after attempt {earlier[-1]}{began}{origin}")
    text = f"attempt {attempt}{began}: no earlier one is in the directory"
    why = "--clean leaves none; else the run was not started again yet"
    return Condition(name, UNKNOWN, text if attempt is not None else "the run has no attempts", action=why)


def _processes(facts: Facts, verdict: Verdict) -> Condition:
    name, launcher = "processes up", facts.launcher
    ended = [one for one in facts.processes if one.state in (states.EXITED, states.GONE)]
    if verdict.phase == FINISHED:
        return Condition(name, HOLDS, "the attempt has finished, and its processes with it")
    if ended or (launcher is not None and launcher.state == states.GONE):
        names = [f"{one.name} (pid {one.pid} on {one.host})" for one in ended]
        names += ["launcher"] if launcher is not None and launcher.state == states.GONE else []
        evidence = [
            Evidence(f"process {one.pid} on {one.host}", one.reason or one.state, time=one.ended) for one in ended
        ]
        return Condition(name, FAILS, f"these are gone: {', '.join(names)}", evidence, "prl status tells why")
    held = [one.name for one in facts.processes if one.stopped]
    if held:
        return Condition(name, FAILS, f"these are held by the system (SIGSTOP): {', '.join(held)}")
    silent = [one.name for one in facts.processes if one.state == states.UNKNOWN]
    if silent or not facts.processes:
        hosts = f" on {', '.join(facts.hosts)}" if facts.hosts else ""
        return Condition(name, UNKNOWN, f"{', '.join(silent) or 'they'}{hosts} cannot be asked from {facts.host}")
    alive = [one.name for one in facts.processes if one.state == states.ALIVE]
    return Condition(name, HOLDS, f"{len(alive)} of {len(alive)} live: {', '.join(alive)}")


def _progress(facts: Facts, verdict: Verdict) -> Condition:
    name, since = "counter advanced", facts.attempt_started
    clocks = [(what, getattr(facts.progress, clock)) for clock, what in _COUNTERS]
    moved = [
        (what, clock)
        for what, clock in clocks
        if clock.value is not None and clock.time is not None and since is not None and clock.time > since
    ]
    if since is None:
        return Condition(name, UNKNOWN, "nothing says when the attempt began")
    if not moved:
        awaited = f"; waits for {verdict.awaits}" if verdict.awaits else ""
        return Condition(name, FAILS, f"no step, batch or episode in {format_duration(facts.as_of - since)}{awaited}")
    told = ", ".join(f"{what} {clock.value} {format_duration(facts.as_of - clock.time)} ago" for what, clock in moved)
    evidence = [Evidence(clock.source or what, f"{what} {clock.value}", time=clock.time) for what, clock in moved]
    return Condition(name, HOLDS, told, evidence)


def _health(verdict: Verdict) -> Condition:
    name, reason = "not down", f": {verdict.reason}" if verdict.reason else ""
    if verdict.health == healths.UNKNOWN:
        return Condition(name, UNKNOWN, f"health is not known{reason}")
    state = FAILS if verdict.health == healths.DOWN else HOLDS
    return Condition(name, state, f"the run is {verdict.health}{reason}")

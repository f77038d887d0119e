"""How far a start-up is: the stage, what is awaited in it, and since when."""

from dataclasses import dataclass

from prl.watch.facts import Facts
from prl.watch.waiting import handshake


@dataclass(frozen=True)
class Stage:
    """How far a start-up is."""

    name: str
    awaits: str
    since: float | None
    bound: float
    """Seconds that this stage may take, from the run's configuration."""
    source: str


def stage_of(facts: Facts) -> Stage | None:
    """The start-up stage, None once a step of this attempt was finished."""
    run = facts.run
    if facts.progress.trainer.time is not None or (facts.progress.trainer.value or 0) > (run.resume_step or 0):
        return None
    since = facts.attempt_started
    waited = [server for server in facts.env_servers if server.ready is None]
    if waited:
        names = ", ".join(server.name for server in waited)
        awaits = f"environment server {names}: no address yet"
        return Stage("environment servers", awaits, since, run.env_startup_timeout, waited[0].source)
    since = max((server.ready for server in facts.env_servers if server.ready is not None), default=since)
    wait = _orchestrator_wait(facts)
    if wait is not None:
        return wait
    return _loops(facts, since)


def _loops(facts: Facts, since: float | None) -> Stage:
    """Stages after the environment servers: each worker's loop, the first batch, the first step."""
    run, loop = facts.run, facts.mark("trainer_loop")
    if loop is None:
        return Stage("trainer", "trainer: not in its training loop yet", since, run.sync_timeout, "trainer.log")
    since = loop.time or since
    if run.kind != "rl":
        return Stage("first step", "trainer: first step", since, run.batch_timeout, loop.file)
    started = facts.mark("orchestrator_loop")
    if started is None:
        edge = handshake(facts)
        what = edge.text if edge else "orchestrator: not in its loop yet (inference and first weights come before it)"
        return Stage("first weights", what, since, run.inference_ready_timeout, "orchestrator.log")
    since = started.time or since
    if not facts.progress.orchestrator.time:
        first = facts.progress.episodes.time is None
        what = "orchestrator: first episode" if first else "orchestrator: first batch (episodes are arriving)"
        return Stage("first batch", what, since, run.batch_timeout, started.file)
    since = facts.progress.orchestrator.time
    return Stage("first step", "trainer: first step", since, run.batch_timeout, loop.file)


def _orchestrator_wait(facts: Facts) -> Stage | None:
    """What the orchestrator says that it waits for before its loop begins."""
    run = facts.run
    wait, ready = facts.mark("startup_wait"), facts.mark("startup_ready")
    if wait is None or facts.mark("orchestrator_loop") is not None:
        return None
    if ready is not None and ready.offset > wait.offset:
        return None
    since = ready.time if ready is not None else facts.attempt_started
    what = f"orchestrator: {wait.text}"
    if "inference server" in wait.text:
        return Stage("inference", what, since, run.inference_ready_timeout, wait.file)
    if "environment server" in wait.text:
        return Stage("environment servers", what, since, run.env_startup_timeout, wait.file)
    return Stage("first weights", what, since, run.sync_timeout, wait.file)

"""Who waits for whom: the edges that marker files and log lines tell of, and whether they close a circle."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from prl.watch.facts import Facts, Mark

_POLICY = re.compile(r"policy v(\d+)")
_SECONDS = re.compile(r"\b(?:after|since) (\d+)s\b")

TRAINER, ORCHESTRATOR, INFERENCE = "trainer", "orchestrator", "inference"

ACCEPT, SEND, WRITE, APPLY = "accept", "send", "write", "apply"


@dataclass(frozen=True)
class Edge:
    """One side that waits for another."""

    who: str
    whom: str
    text: str
    """The whole of it in words."""
    since: float | None
    source: str
    offset: int | None = None
    step: str | None = None
    """Of the handshake of a policy: ``accept``, ``send``, ``write`` or ``apply``."""


def handshake(facts: Facts) -> Edge | None:
    """The open step in the handshake of the newest policy version."""
    newest = facts.broadcast
    if newest is None or newest.sender_ready is None:
        return None
    name = f"policy v{newest.version}"
    if newest.receiver_ready is None:
        text = f"trainer waits for the orchestrator to accept {name}"
        return Edge(TRAINER, ORCHESTRATOR, text, newest.sender_ready, newest.source, step=ACCEPT)
    if newest.started is None:
        text = f"orchestrator waits for the trainer to send {name}"
        return Edge(ORCHESTRATOR, TRAINER, text, newest.receiver_ready, newest.source, step=SEND)
    if newest.finished is None:
        text = f"orchestrator waits for the trainer to finish writing {name}"
        return Edge(ORCHESTRATOR, TRAINER, text, newest.started, newest.source, step=WRITE)
    policy = facts.progress.policy
    # The applied version is recorded every few seconds: an older record says nothing about this broadcast.
    if policy.value is not None and policy.value < newest.version and (policy.seen or 0.0) > newest.finished:
        text = f"orchestrator waits for inference to apply {name} (applied: v{policy.value})"
        return Edge(ORCHESTRATOR, INFERENCE, text, newest.finished, newest.source, step=APPLY)
    return None


def edges(facts: Facts) -> Iterator[Edge]:
    """All waits that are recorded and not over, the handshake first."""
    first = handshake(facts)
    if first is not None:
        yield first
    for kind, over in (("hold", "orchestrator_step"), ("gate_closed", "gate_open")):
        mark = _open(facts, kind, over)
        if mark is not None:
            whom = INFERENCE if _policy_was_sent(facts, mark.text) else TRAINER
            text = f"orchestrator: {mark.text}{_policy_to_come(facts, mark.text)}"
            yield Edge(ORCHESTRATOR, whom, text, mark.time, mark.file, mark.offset)
    mark = facts.mark("offers")
    if mark is not None:
        text = f"orchestrator waits for the trainer to send weights: {mark.text}"
        yield Edge(ORCHESTRATOR, TRAINER, text, mark.time, mark.file, mark.offset)
    mark = _open(facts, "trainer_wait", "trainer_step")
    if mark is not None:
        yield Edge(TRAINER, ORCHESTRATOR, f"trainer: {mark.text}", _began(mark), mark.file, mark.offset)


def circle(facts: Facts) -> tuple[Edge, Edge] | None:
    """Two edges that close a circle: neither side goes on before the other does."""
    known = list(edges(facts))
    for edge in known:
        for other in known:
            if (edge.who, edge.whom) == (other.whom, other.who) and edge.who == ORCHESTRATOR:
                return edge, other
    return None


def awaited(facts: Facts) -> str | None:
    """What the run waits for, where files say."""
    first = next(edges(facts), None)
    if first is not None:
        return first.text
    trained, shipped = facts.progress.trainer.value, facts.progress.orchestrator.value
    if facts.run.kind != "rl" or trained is None or shipped is None:
        return facts.launcher.waiting_for if facts.launcher else None
    if trained < shipped:
        return f"trainer: step {trained + 1} (its batch was shipped)"
    return f"trainer waits for batch {trained + 1} of the orchestrator"


def _open(facts: Facts, kind: str, over: str) -> Mark | None:
    """The newest line of a kind, unless a line that ends the wait came after it."""
    mark, end = facts.mark(kind), facts.mark(over)
    return None if mark is None or (end is not None and end.offset > mark.offset) else mark


def _began(mark: Mark) -> float | None:
    """When a wait began of which a line tells for how long it has lasted."""
    lasted = _SECONDS.search(mark.text)
    return mark.time - float(lasted[1]) if mark.time is not None and lasted is not None else mark.time


def _policy_was_sent(facts: Facts, line: str) -> bool:
    """Whether the policy version that a line waits for lies there whole: one that is only offered is not sent."""
    needed, newest = _POLICY.search(line), facts.broadcast
    if needed is None or newest is None:
        return False
    version = int(needed[1])
    return newest.version > version or (newest.version == version and newest.finished is not None)


def _policy_to_come(facts: Facts, line: str) -> str:
    """Of a wait for a policy version that was not broadcast yet: who has to make it."""
    needed, trained = _POLICY.search(line), facts.progress.trainer.value
    if needed is None or trained is None or _policy_was_sent(facts, line):
        return ""
    return f"; the trainer has not sent v{needed[1]}, it is at step {trained + 1}"

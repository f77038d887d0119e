"""What ``prl status --probe`` adds: one bounded, read-only look at the nodes of the run's SLURM job."""

from dataclasses import dataclass, field
from typing import Any

from prl.slurm.commands import run
from prl.slurm.probe import NodeLook, probe
from prl.text.terminal import one_line
from prl.watch.facts import Facts
from prl.watch.outward import safe

LINES = 12
"""Lines shown of each section of a node."""
_WIDTH = 100


@dataclass(frozen=True)
class NodesSeen:
    """What the nodes answered, or why none did."""

    job: str | None
    problem: str | None
    nodes: tuple[NodeLook, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Lists of lines by section, bounded."""
        nodes = [
            {"host": node.host, **{name: lines[:LINES] for name, lines in node.sections.items()}} for node in self.nodes
        ]
        return {"job": self.job, "problem": self.problem, "nodes": nodes}

    def text(self) -> str:
        """For a terminal, a section of lines a node."""
        lines = [f"nodes of job {self.job}" if self.job else "nodes"]
        if self.problem is not None:
            lines.append(f"  {self.problem}")
        for node in self.nodes:
            for name, found in node.sections.items():
                lines.append(f"  {node.host} {name}")
                lines += [f"    {one_line(line, _WIDTH)}" for line in found[:LINES]]
                lines += [f"    ({len(found) - LINES} more)"] if len(found) > LINES else []
        return "\n" + "\n".join(safe(line) for line in lines) + "\n"


def look_at_nodes(facts: Facts) -> NodesSeen:
    """Ask the nodes of the run's running job. Takes at most as long as :func:`prl.slurm.probe.probe` does."""
    job = facts.jobs[-1] if facts.jobs else None
    if job is None:
        return NodesSeen(None, "no SLURM job of this run is known: there are no nodes to look at")
    if job.state != "RUNNING" or not job.nodes:
        return NodesSeen(job.id, f"the job is {job.state}: only the nodes of a running job can be looked at")
    try:
        answer = probe(job.id, [node.name for node in job.nodes], runner=run)
    except ValueError as error:
        return NodesSeen(job.id, str(error))
    return NodesSeen(job.id, answer.trouble.message if answer.trouble else None, answer.nodes)

"""A look at a running job's nodes from within its allocation, only where a user asks for it.

One ``srun --overlap`` step that reads processes, memory, disks and GPUs on each node and ends within a minute. Not part
of any periodic check: a step takes the controller's time, and some sites count steps.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from prl.slurm.commands import PROBE_SCRIPT, Query, Runner, Trouble, run
from prl.slurm.jobs import checked_id

SECONDS = 20.0
MAX_NODES = 64
_MAX_BYTES = 2 * 1024**2


@dataclass
class NodeLook:
    """What one node printed, by section: ``processes``, ``memory``, ``disk``, ``gpus``; its lines verbatim."""

    host: str
    sections: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Probe:
    """The nodes that answered."""

    nodes: tuple[NodeLook, ...]
    at: float
    trouble: Trouble | None = None


def probe(job_id: str, nodes: Iterable[str], runner: Runner = run, seconds: float = SECONDS) -> Probe:
    """Look at these nodes of a running job, the first 64. Raises ValueError for what is no job id, and for no nodes."""
    hosts = list(dict.fromkeys(nodes))[:MAX_NODES]
    if not hosts:
        raise ValueError("no node to look at")
    argv = (
        "srun",
        "--overlap",
        f"--jobid={checked_id(job_id)}",
        f"--nodelist={','.join(hosts)}",
        f"--nodes={len(hosts)}",
        f"--ntasks={len(hosts)}",
        "--ntasks-per-node=1",
        "--label",
        "--input=none",
        "--time=1",
        "--immediate=5",
        "sh",
        "-c",
        PROBE_SCRIPT,
    )
    answer = runner(Query(argv, seconds, _MAX_BYTES))
    return Probe(read_probe(answer.text), answer.at, answer.trouble)


def read_probe(text: str) -> tuple[NodeLook, ...]:
    """The labelled output of the script of a probe, a node each; lines of several nodes may be mixed."""
    looks: dict[str, NodeLook] = {}
    sections: dict[str, list[str]] = {}
    for line in text.split("\n"):
        task, colon, words = line.partition(": ")
        task = task.strip()
        if not colon or not task.isdigit():
            continue
        if words.startswith("host ") and task not in looks:
            looks[task] = NodeLook(words.removeprefix("host ").strip())
        elif words.startswith("section ") and task in looks:
            sections[task] = looks[task].sections.setdefault(words.removeprefix("section ").strip(), [])
        elif task in sections:
            sections[task].append(words)
    return tuple(looks.values())

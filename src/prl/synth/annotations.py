"""What is said later about the traces of a step: the orchestrator's advantages at the ship, the trainer's streams.

The orchestrator writes one update a trace with all branches, the trainer one for every sequence it trained on, that is
one a branch. Streams cover the branch from its root; the trainer's are null where nothing was sampled.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from prl.rundir import jsonl
from prl.rundir.annotations.update import VERSION
from prl.rundir.annotations.writer import ANNOTATIONS
from prl.synth.course import Step
from prl.synth.episodes import Episode
from prl.synth.shape import RunShape
from prl.synth.signals import NULL, ZERO, TokenSignals, listed
from prl.synth.streams import ChunkStream, open_rows
from prl.synth.traces import NodeTokens, json_bytes

ORCHESTRATOR, TRAINER = "orch", "trainer"


class AnnotationStreams:
    """Writes both producers' updates below ``traces``."""

    def __init__(self, shape: RunShape, signals: TokenSignals, traces: Path) -> None:
        self.signals = signals
        self._streams = {}
        self._indexes = {}
        for producer in (ORCHESTRATOR, TRAINER):
            self._streams[producer] = ChunkStream(traces / ANNOTATIONS / producer, shape.chunk_bytes)
            self._indexes[producer] = open_rows(traces / ANNOTATIONS / f"{producer}.index.jsonl")

    def ship(self, step: Step, episodes: Iterable[Episode], advantages: dict[str, float]) -> None:
        """The updates of the traces that were shipped at ``step``. ``advantages``: by trace id."""
        for episode in episodes:
            for draft, trace in zip(episode.drafts, episode.traces, strict=True):
                advantage = advantages[draft.id]
                info = {"effective": True, "ship": {"step": step.number, "time": step.shipped}, "advantage": advantage}
                value = json_bytes(advantage) + b","
                branches = [
                    b'{"index":%d,"advantages":%b}' % (index, _advantages([trace.nodes[n] for n in path], value))
                    for index, path in enumerate(trace.paths)
                ]
                self._append(ORCHESTRATOR, draft.id, info, branches)
                for index, path in enumerate(trace.paths):
                    branch = self._trainer_branch(index, [trace.nodes[n] for n in path])
                    self._append(TRAINER, draft.id, {}, [branch])

    def flush(self) -> None:
        """Updates reach their files before the rows that point to them."""
        for producer in (ORCHESTRATOR, TRAINER):
            self._streams[producer].flush()
            self._indexes[producer].flush()

    def close(self) -> None:
        for producer in (ORCHESTRATOR, TRAINER):
            self._streams[producer].close()
            self._indexes[producer].close()

    def _trainer_branch(self, index: int, nodes: list[NodeTokens]) -> bytes:
        streams = {
            b"trainer_logprobs": self.signals.trainer_logprobs,
            b"entropies": self.signals.entropies,
            b"mismatch_kl": self.signals.mismatch_kl,
            b"is_masked": self.signals.is_masked,
        }
        fields = [
            b'"%b":%b' % (name, listed(*[NULL * node.given + cut(node.place, node.sampled) for node in nodes]))
            for name, cut in streams.items()
        ]
        return b'{"index":%d,%b}' % (index, b",".join(fields))

    def _append(self, producer: str, trace_id: str, info: dict[str, object], branches: list[bytes]) -> None:
        line = b'{"version":%d,"trace_id":"%b","info":%b,"branches":[%b]}\n' % (
            VERSION,
            trace_id.encode(),
            json_bytes(info),
            b",".join(branches),
        )
        chunk, offset = self._streams[producer].append(line)
        row = {"trace_id": trace_id, "chunk": chunk, "offset": offset, "info": info}
        self._indexes[producer].write(jsonl.encode(row))


def group_advantages(episodes: Iterable[Episode]) -> dict[str, float]:
    """By trace id: the reward less the mean of the group's traces of that agent."""
    groups: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for episode in episodes:
        for trace in episode.values["traces"]:
            groups[episode.group, trace["agent"]].append((trace["id"], trace["reward"] or 0.0))
    found: dict[str, float] = {}
    for members in groups.values():
        mean = sum(reward for _, reward in members) / len(members)
        found |= {trace_id: round(reward - mean, 4) for trace_id, reward in members}
    return found


def _advantages(nodes: list[NodeTokens], value: bytes) -> bytes:
    return listed(*[ZERO * node.given + value * node.sampled for node in nodes])

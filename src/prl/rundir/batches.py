"""Training batches on disk, of runs whose orchestrator hands them over as files: ``batches/step_S/rank_r.bin``.

Written as ``rank_r.bin.tmp`` and renamed. Nobody removes them while the run lasts, so their bytes are what matters.
The oldest layout has them below ``rollouts/``, beside the episodes. Left out: reading what they hold, which is between
an orchestrator and a trainer of one version. A run that hands batches over by ZMQ, the default, has none.
"""

from dataclasses import dataclass
from pathlib import Path

from prl.rundir.layout import numbered
from prl.rundir.tree import RunTree

DIRECTORIES = ("batches", "rollouts")


@dataclass(frozen=True)
class StoredBatch:
    """The batch of one step."""

    step: int
    path: Path
    ranks: dict[int, int]
    """Bytes of each rank's part."""
    unfinished: tuple[str, ...]
    """Parts that are still being written, or were when their writer died."""
    changed: float
    """When a part was last written, Unix seconds."""

    @property
    def bytes(self) -> int:
        """All parts together."""
        return sum(self.ranks.values())


def list_batches(root: Path) -> list[StoredBatch]:
    """The batches that lie in the run at ``root``, by step. Raises nothing."""
    tree = RunTree(root)
    found = []
    for directory in DIRECTORIES:
        for name in tree.names(directory):
            step = numbered(name, "step_")
            batch = _read(tree, f"{directory}/{name}", step) if step is not None else None
            if batch is not None:
                found.append(batch)
    return sorted(found, key=lambda batch: batch.step)


def _read(tree: RunTree, path: str, step: int) -> StoredBatch | None:
    """The batch in a directory; None when no part of one is there."""
    ranks: dict[int, int] = {}
    unfinished: list[str] = []
    changed = 0.0
    for name in tree.names(path):
        stem, _, suffix = name.partition(".")
        rank = numbered(stem, "rank_")
        stat = tree.stat(f"{path}/{name}") if rank is not None and suffix in ("bin", "bin.tmp", "tmp") else None
        if rank is None or stat is None:
            continue
        changed = max(changed, stat.st_mtime)
        if suffix == "bin":
            ranks[rank] = stat.st_size
        else:
            unfinished.append(name)
    return StoredBatch(step, tree.path(path), ranks, tuple(unfinished), changed) if ranks or unfinished else None

"""The checkpoints of a run as a reader finds them: what each half holds, and in which state the whole is.

Both ways of writing are read. This project writes below ``step_N.tmp/`` and renames; others write into ``step_N/`` in
place, the trainer's ``.metadata`` last. Both places are looked at: the run directory, and the one that a configuration
names (``ckpt.output_dir``), which old runs used for the trainer's half alone. Left out: opening what the files hold. Of
``.metadata`` only the names of the shards that it lists are taken, by pattern, since loading a pickle runs it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prl.rundir.checkpoints import HALVES, MARKS, TRAINER, expendable
from prl.rundir.configs import Document
from prl.rundir.layout import numbered
from prl.rundir.tree import RunTree
from prl.rundir.untyped import as_object
from prl.text.human import format_duration

WRITING = "writing"
HALF = "half"
COMPLETE = "complete"
STUCK = "stuck"
DAMAGED = "damaged"

STUCK_SECONDS = 600.0
"""Without growth for so long, a checkpoint that is not finished will hardly be."""

_SHARD = re.compile(rb"__\d{1,9}_\d{1,9}\.distcp")
_SHARD_NAME = re.compile(r"__\d+_\d+\.distcp")
_MAX_METADATA = 256 * 1024**2
_MAX_FILES = 20_000
"""Files of a half that are counted."""
_SHELF = "abandoned.attempt_"


@dataclass(frozen=True)
class Half:
    """What ``trainer/`` or ``orchestrator/`` of a checkpoint holds."""

    name: str
    whole: bool
    """Whether the file that is written last is there, under the half's final name."""
    files: int
    bytes: int
    changed: float
    """When something in it was last written, Unix seconds."""
    shards: int
    """Shard files that are there. The orchestrator's half has none."""
    expected_shards: int | None
    """How many the metadata lists. None: it lists none, or is not there."""
    problem: str | None
    """Why a half that looks whole cannot be loaded."""


@dataclass(frozen=True)
class CheckpointState:
    """A checkpoint of one step."""

    step: int
    path: Path
    state: str
    """``writing``, ``half``, ``complete``, ``stuck`` or ``damaged``."""
    halves: tuple[Half, ...]
    bytes: int
    changed: float
    """When something in it was last written, Unix seconds; ``now`` less this is its age."""
    abandoned_by: int | None
    """The attempt that set it aside, going on from an earlier step."""
    kept: bool | None
    """Whether retention keeps it when the next one is saved. None: it is not complete, or nothing says."""
    problem: str | None
    """What is wrong with it, or what it waits for."""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run."""

    roots: tuple[Path, ...]
    """Directories that were looked at."""
    states: tuple[CheckpointState, ...]
    """By step; what was set aside comes last."""
    keep_last: int | None
    keep_interval: int | None
    trouble: tuple[str, ...]

    @property
    def newest_complete(self) -> int | None:
        """The step that ``--resume`` goes on from."""
        steps = [state.step for state in self.states if state.state == COMPLETE and state.abandoned_by is None]
        return max(steps, default=None)


def read_checkpoints(root: Path, documents: Mapping[str, Document], now: float) -> Checkpoints:
    """The checkpoints of the run at ``root`` with these configurations, as of ``now`` (Unix seconds). Raises nothing.

    ``documents`` are those of :class:`prl.rundir.configs.AttemptConfigs`. A run of SFT has the trainer's half alone.
    """
    needed = (TRAINER,) if "sft" in documents else HALVES
    settings = [as_object(document.get("ckpt")) for document in _in_order(documents)]
    keep_last, keep_interval = (_first_int(settings, name) for name in ("keep_last", "keep_interval"))
    roots = _roots(root, settings)
    states: list[CheckpointState] = []
    trouble: list[str] = []
    for place in roots:
        tree, name = (RunTree(root), "checkpoints") if place == root / "checkpoints" else (RunTree(place), "")
        states += _read_root(tree, name, needed, now)
        trouble += tree.trouble
    merged = _with_retention(_joined(states, needed, now), keep_last, keep_interval)
    return Checkpoints(tuple(roots), tuple(merged), keep_last, keep_interval, tuple(trouble))


def _in_order(documents: Mapping[str, Document]) -> list[Document]:
    nested = [as_object(documents.get("rl", {}).get(name)) for name in ("trainer", "orchestrator")]
    return [*(documents.get(name, {}) for name in ("trainer", "sft", "orchestrator", "rl")), *nested]


def _roots(root: Path, settings: Sequence[Mapping[str, Any]]) -> list[Path]:
    """The run's own directory, and those its components were told; each once."""
    told = [value for ckpt in settings if isinstance(value := ckpt.get("output_dir"), str) and _is_path(value)]
    places = [root / "checkpoints", *(Path(value) / "checkpoints" for value in told)]
    return list({os.path.realpath(place): place for place in reversed(places)}.values())[::-1]


def _is_path(text: str) -> bool:
    """Whether the system takes a text for a path at all: half a surrogate pair or a null byte it does not."""
    return bool(text) and "\0" not in text and text.encode(errors="replace").decode() == text


def _read_root(tree: RunTree, directory: str, needed: Sequence[str], now: float) -> list[CheckpointState]:
    found = []
    for name in tree.names(directory):
        path = f"{directory}/{name}".lstrip("/")
        shelf = numbered(name, _SHELF)
        if shelf is not None:
            for inner in tree.names(path):
                state = _read_step(tree, f"{path}/{inner}", needed, now)
                found += [replace(state, abandoned_by=shelf)] if state else []
        else:
            state = _read_step(tree, path, needed, now)
            found += [state] if state else []
    return found


def _read_step(tree: RunTree, path: str, needed: Sequence[str], now: float) -> CheckpointState | None:
    """The checkpoint below a name like ``step_4``, ``step_4.tmp`` or ``step_4.whole.tmp``; None for any other name."""
    name, _, suffix = path.rpartition("/")[2].partition(".")
    step = numbered(name, "step_")
    there = tree.stat(path)
    if step is None or suffix not in ("", "tmp", "whole.tmp") or there is None or not tree.is_dir(path):
        return None
    halves = [half for half in (_read_half(tree, path, name) for name in HALVES) if half is not None]
    changed = max([there.st_mtime, *(half.changed for half in halves)])
    state, problem = _state(halves, changed, needed, now, staged=bool(suffix))
    return CheckpointState(step, tree.path(path), state, tuple(halves), _size(halves), changed, None, None, problem)


def _read_half(tree: RunTree, step: str, name: str) -> Half | None:
    path, whole_name = f"{step}/{name}", True
    if not tree.is_dir(path):
        path, whole_name = f"{step}/{name}.tmp", False
        if not tree.is_dir(path):
            return None
    files, size, shards = 0, 0, 0
    directory = tree.stat(path)
    changed = directory.st_mtime if directory else 0.0
    waiting = [path]
    while waiting and files < _MAX_FILES:
        here = waiting.pop()
        for entry in tree.entries(here):
            found = tree.stat(f"{here}/{entry.name}")
            if found is None:
                continue
            changed = max(changed, found.st_mtime)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{here}/{entry.name}")
                continue
            files, size = files + 1, size + found.st_size
            shards += bool(_SHARD_NAME.fullmatch(entry.name)) and found.st_size > 0
    mark = tree.stat(f"{path}/{MARKS[name]}")
    whole = mark is not None and whole_name
    expected, problem = _check(tree, path, name) if whole else (None, None)
    if whole and expected is not None and shards != expected:
        problem = f"{shards} shards with content, its metadata lists {expected}"
    return Half(name, whole, files, size, changed, shards, expected, problem)


def _check(tree: RunTree, path: str, name: str) -> tuple[int | None, str | None]:
    """How many shards a half says it has, and why the file that says that it is whole is not."""
    mark = f"{path}/{MARKS[name]}"
    there = tree.stat(mark)
    if there is not None and there.st_size == 0:
        return None, f"{MARKS[name]} is empty"
    if name != TRAINER:
        return None, None
    data = tree.read(mark, _MAX_METADATA)
    listed = set(_SHARD.findall(data or b""))
    return len(listed) or None, None


def _size(halves: Sequence[Half]) -> int:
    return sum(half.bytes for half in halves)


def _state(
    halves: Sequence[Half], changed: float, needed: Sequence[str], now: float, *, staged: bool
) -> tuple[str, str | None]:
    """The state of a checkpoint, and what is wrong with it or what it waits for."""
    broken = next((half for half in halves if half.problem is not None), None)
    if broken is not None:
        return DAMAGED, f"{broken.name}/: {broken.problem}"
    whole = [half.name for half in halves if half.whole]
    missing = [name for name in needed if name not in whole]
    if not missing and not staged:
        return COMPLETE, None
    begun = [half.name for half in halves if not half.whole]
    if whole and not begun and missing:
        return HALF, f"{' and '.join(missing)} has not begun its half"
    what = f"{' and '.join(begun)} has not finished its half" if begun else "it was not moved to its final name"
    if now - changed > STUCK_SECONDS:
        return STUCK, f"{what}, and nothing was written for {format_duration(now - changed)}"
    return WRITING, what if halves else "nothing is in it yet"


def _joined(states: Sequence[CheckpointState], needed: Sequence[str], now: float) -> list[CheckpointState]:
    """One state a step, where a run of the oldest layouts left its halves in two places."""
    by_step: dict[tuple[int, int | None], list[CheckpointState]] = {}
    for state in states:
        by_step.setdefault((state.step, state.abandoned_by), []).append(state)
    found = []
    for same in by_step.values():
        names = [half.name for state in same for half in state.halves]
        apart = len(same) > 1 and len({state.path.parent for state in same}) == len(same)
        if not apart or len(set(names)) != len(names):
            found += same
            continue
        first = next((state for state in same if any(half.name == TRAINER for half in state.halves)), same[0])
        halves = sorted((half for state in same for half in state.halves), key=lambda half: HALVES.index(half.name))
        staged = any(state.path.suffix == ".tmp" for state in same)
        changed = max(state.changed for state in same)
        word, problem = _state(halves, changed, needed, now, staged=staged)
        whole = tuple(halves)
        found.append(replace(first, state=word, halves=whole, bytes=_size(whole), changed=changed, problem=problem))
    return sorted(found, key=lambda state: (state.abandoned_by is not None, state.step, state.path.name))


def _with_retention(
    states: Sequence[CheckpointState], keep_last: int | None, keep_interval: int | None
) -> list[CheckpointState]:
    """With what stays when one more is saved: ``keep_last`` counts that one too."""
    complete = [state.step for state in states if state.state == COMPLETE and state.abandoned_by is None]
    if not complete:
        return list(states)
    going = set(expendable([*complete, complete[-1] + 1], keep_last, keep_interval))
    return [
        replace(state, kept=state.step not in going)
        if state.state == COMPLETE and state.abandoned_by is None
        else state
        for state in states
    ]


def _first_int(settings: Sequence[Mapping[str, Any]], name: str) -> int | None:
    values = (ckpt.get(name) for ckpt in settings)
    return next((value for value in values if type(value) is int and value > 0), None)

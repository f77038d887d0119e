"""Which log files an attempt has and who wrote each: components, nodes, ranks, environments, SLURM's output.

Names are those of the run contract, below ``logs/attempt_N/`` or, in older layouts, below ``logs/`` itself; the
launcher's job logs lie outside it and belong to every attempt. A link is followed while it stays inside the run
directory, a file that is reached by two names is listed once, and a loop ends. Left out: what the content says (a
router's lines within ``inference.log`` are told apart when lines are read).
"""

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prl.rundir.layout import numbered
from prl.rundir.tree import RunTree

MAX_LOGS = 1000
"""Log files listed of one attempt. What is left out is counted."""

ROUTER = "router"
"""Component of the lines that a router writes into ``inference.log``."""

_MAX_DEPTH = 8
_MAX_ENTRIES = 50_000
_SUFFIXES = (".log", ".stdout", ".stderr")
_SLURM_OUTPUT = re.compile(r"slurm-[\w.%-]*\.(?:out|err)")
_JOB_LOG = re.compile(r".*job_.*\.log")
_TORCHRUN = re.compile(r"(?:.*/)?attempt_\d+/(?P<rank>\d+)/std(?:out|err)\.log")
_NODE = re.compile(r"node_(?P<node>\d+)(?:_rank(?P<rank>\d+))?")
_RANK = re.compile(r"rank_(?P<rank>\d+)")
_NUMBER = re.compile(r"\d+$")
_JOB_DIRECTORIES = ("launcher/logs", "launcher", "", "logs")


@dataclass(frozen=True)
class LogFile:
    """One log file and the component that wrote it."""

    component: str
    """``trainer``, ``orchestrator``, ``inference``, ``launcher``, ``envs/train/<name>``, ``trainer/rank_0`` ..."""
    path: Path
    rank: int | None = None
    """The rank whose stream this is."""
    node: int | None = None
    repeats: bool = False
    """Whether it is one rank's stream, of which the component's own log may hold the same lines."""
    aliases: tuple[str, ...] = ()
    """Other components as which links name the same file."""

    @property
    def group(self) -> str:
        """What the component is part of: ``trainer``, ``inference``, ``envs``, ``job`` ..."""
        if _JOB_LOG.fullmatch(self.path.name) or _SLURM_OUTPUT.fullmatch(self.path.name):
            return "job"
        return self.component.split("/", 1)[0]

    def matches(self, wanted: str) -> bool:
        """Whether a name means this log: its component, the beginning of one, its group, or a pattern with ``*``."""
        names = (self.component, *self.aliases)
        return wanted == self.group or any(
            name == wanted or name.startswith(f"{wanted}/") or fnmatch.fnmatchcase(name, wanted) for name in names
        )

    def rank_of(self, prefix: str | None) -> int | None:
        """The rank that wrote a line: the file's, else what torchrun put before the line (``trainer0``)."""
        if self.rank is not None:
            return self.rank
        number = _NUMBER.search(prefix) if prefix else None
        return int(number[0]) if number else None


@dataclass(frozen=True)
class LogList:
    """The logs of an attempt."""

    files: tuple[LogFile, ...]
    left_out: int
    """Log files beyond the bound."""
    trouble: tuple[str, ...]
    """What was not read and why: links that leave the run directory, directories that cannot be read."""


def list_logs(root: Path, directory: str | None, limit: int = MAX_LOGS) -> LogList:
    """The logs below ``directory`` (relative to the run, e.g. ``logs/attempt_2``; None: none) and the job logs."""
    tree = RunTree(root)
    found: dict[tuple[int, int], LogFile] = {}
    below = sorted(_below(tree, directory), key=_order) if directory else []
    for file in [*below, *_job_logs(tree)]:
        about = tree.stat(file.path.relative_to(root).as_posix())
        if about is None:
            continue
        known = found.setdefault((about.st_dev, about.st_ino), file)
        if known is not file and file.component not in (known.component, *known.aliases):
            aliases = (*known.aliases, file.component)
            found[about.st_dev, about.st_ino] = LogFile(
                known.component, known.path, known.rank, known.node, known.repeats, aliases
            )
    files = list(found.values())
    return LogList(tuple(files[:limit]), max(len(files) - limit, 0), tuple(tree.trouble))


def select_logs(files: Sequence[LogFile], components: Sequence[str] = (), ranks: Sequence[int] = ()) -> list[LogFile]:
    """The logs to read for what was asked: by default all but the streams of single ranks that another log repeats.

    A rank's own stream is read in place of the component's log where it was asked for by rank.
    """
    chosen = [file for file in files if not components or any(_means(file, name) for name in components)]
    own = [file for file in chosen if file.rank in ranks] if ranks else []
    if own:
        groups = {file.group for file in own}
        return [file for file in chosen if file in own or (file.rank is None and file.group not in groups)]
    if ranks:
        return [file for file in chosen if file.rank is None]
    # What was named is read. Where only the whole component was, its own log stands for the ranks it shows.
    whole = {file.group for file in chosen if not file.repeats}
    return [
        file
        for file in chosen
        if not file.repeats or file.group not in whole or any("/" in name and file.matches(name) for name in components)
    ]


def _means(file: LogFile, wanted: str) -> bool:
    return file.matches(wanted) or (wanted == ROUTER and (file.group == "inference" or ROUTER in file.component))


def _below(tree: RunTree, directory: str) -> Iterator[LogFile]:
    seen: set[tuple[int, int]] = set()
    left = _MAX_ENTRIES
    pending = [(directory, 0)]
    while pending:
        parent, depth = pending.pop()
        about = tree.stat(parent)
        if about is None or (about.st_dev, about.st_ino) in seen:
            continue
        seen.add((about.st_dev, about.st_ino))
        for entry in tree.entries(parent):
            left -= 1
            if left < 0:
                tree.note(directory, f"more than {_MAX_ENTRIES} entries: the rest was not looked at")
                return
            name = f"{parent}/{entry.name}"
            inner = name.removeprefix(f"{directory}/")
            if _is_directory(entry) and tree.is_dir(name):
                # Without attempts the logs lie in logs/ itself; with them, other attempts are not this one.
                if depth < _MAX_DEPTH and not (depth == 0 and numbered(entry.name, "attempt_") is not None):
                    pending.append((name, depth + 1))
            elif entry.name.endswith(_SUFFIXES):
                yield _log_file(inner, tree.path(name))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() and not (entry.name == "latest" and entry.is_symlink())
    except OSError:
        return False


def _log_file(inner: str, path: Path) -> LogFile:
    """What the name of a file below the logs says."""
    torchrun = _TORCHRUN.fullmatch(inner)
    if torchrun:
        rank = int(torchrun["rank"])
        return LogFile(f"trainer/rank_{rank}", path, rank=rank, repeats=True)
    component = str(Path(inner).with_suffix(""))
    node, rank_only = _NODE.fullmatch(path.stem), _RANK.fullmatch(path.stem)
    if node:
        rank_text = node["rank"]
        return LogFile(component, path, node=int(node["node"]), rank=None if rank_text is None else int(rank_text))
    return LogFile(component, path, rank=int(rank_only["rank"]) if rank_only else None)


def _order(file: LogFile) -> tuple[int, tuple[str | int, ...]]:
    """Whole components first, then environments, nodes and routers, and the streams of single ranks last."""
    parts = file.component.split("/")
    kind = 3 if file.repeats else 1 if parts[0] == "envs" else 0 if len(parts) == 1 else 2
    numbers = [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d{1,9})", file.component)]
    return kind, (*numbers, str(file.path))


def _job_logs(tree: RunTree) -> Iterator[LogFile]:
    """SLURM's output: of the contract below ``launcher/logs``, of older layouts and of bare jobs at the top."""
    for directory in _JOB_DIRECTORIES:
        for name in tree.names(directory):
            if _SLURM_OUTPUT.fullmatch(name) or (_JOB_LOG.fullmatch(name) and directory != "logs"):
                path = f"{directory}/{name}" if directory else name
                yield LogFile(Path(name).with_suffix("").as_posix(), tree.path(path))

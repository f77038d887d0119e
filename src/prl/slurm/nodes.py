"""The nodes of a job by ``sinfo``: which are down or drained, since when, and what the administrator wrote."""

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from prl.slurm import values
from prl.slurm.commands import SECONDS, Query, Runner, Trouble, run
from prl.slurm.hosts import expand

_SUFFIXES = {
    "*": "not responding",
    "~": "powered off",
    "#": "powering up",
    "!": "powering down",
    "%": "powering down",
    "$": "in maintenance",
    "@": "rebooting",
    "^": "reboot issued",
    "-": "planned for another job",
    "+": "cut",
}
_USABLE = frozenset({"idle", "allocated", "mixed", "completing", "planned", "reserved", "blocked"})
_LOST = frozenset({"down", "fail", "failing", "error", "unknown", "future", "powered_down", "powering_down"})
_FORMAT = "NTEH"


@dataclass(frozen=True)
class Node:
    """A node. ``reason`` is an administrator's or SLURM's own text, ``since`` seconds since 1970."""

    name: str
    state: str
    """``idle``, ``mixed``, ``allocated``, ``draining``, ``drained``, ``down`` …, in lower case, without its sign."""
    sign: str | None = None
    """What SLURM's sign after the state means: ``not responding``."""
    reason: str | None = None
    since: float | None = None

    @property
    def lost(self) -> bool | None:
        """It cannot run anything: down, failed or not responding. None for a state that is not known."""
        if self.state in _LOST or self.sign in ("not responding", "powered off"):
            return True
        return False if self.state in _USABLE or self.draining else None

    @property
    def draining(self) -> bool:
        """It takes no new job; what runs there goes on (``draining``), or nothing runs there any more (``drained``)."""
        return self.state in ("draining", "drained", "drain")


@dataclass(frozen=True)
class NodesAnswer:
    """The nodes asked for that SLURM knows."""

    nodes: tuple[Node, ...]
    at: float
    trouble: Trouble | None = None


def query_nodes(names: Iterable[str], runner: Runner = run, seconds: float = SECONDS) -> NodesAnswer:
    """These nodes by one call of ``sinfo``. Raises ValueError for what is no node's name, and for no names."""
    wanted = list(dict.fromkeys(names))
    bad = [name for name in wanted if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name)]
    if bad or not wanted:
        raise ValueError(f"not a node: {bad[0]!r}" if bad else "no node to ask for")
    mark = f"<{secrets.token_hex(6)}>"
    text = "".join(f"%{letter}{mark}" for letter in _FORMAT)
    argv = ("sinfo", "--noheader", "--Node", f"--nodes={','.join(wanted)}", f"--format={text}")
    answer = runner(Query(argv, seconds))
    return NodesAnswer(read_sinfo(answer.text, mark), answer.at, answer.trouble)


def read_sinfo(text: str, mark: str) -> tuple[Node, ...]:
    """The nodes of an answer whose every field is followed by ``mark``; a node of two partitions comes once."""
    pieces = text.split(mark)
    nodes: dict[str, Node] = {}
    for start in range(0, len(pieces) - len(_FORMAT), len(_FORMAT)):
        names, state, reason, since = pieces[start : start + len(_FORMAT)]
        for name in expand(names.strip()):
            word = state.strip().lower()
            sign = _SUFFIXES.get(word[-1:])
            nodes[name] = Node(
                name=name,
                state=word.rstrip("".join(_SUFFIXES)),
                sign=sign,
                reason=values.text_or_none(reason),
                since=values.moment(since),
            )
    return tuple(nodes.values())

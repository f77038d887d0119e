"""The watch side: gathers facts about a run, judges them by rules, says how it is doing.

Data flows one way: run directory -> :func:`gather` -> :class:`Facts` -> :func:`assess` -> :class:`Verdict` -> terminal,
STATUS.md, JSON. Nothing here starts, stops or changes anything, STATUS.md aside, and nothing here imports the run side.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from prl.watch.assess import assess
from prl.watch.facts import Facts, FactsError
from prl.watch.gather import gather
from prl.watch.screen import render
from prl.watch.verdict import Evidence, Finding, Verdict

if TYPE_CHECKING:
    from prl.watch.checkin import CheckIn, check_in

__all__ = [
    "CheckIn",
    "Evidence",
    "Facts",
    "FactsError",
    "Finding",
    "Verdict",
    "assess",
    "check_in",
    "gather",
    "render",
    "status_of",
]


def __getattr__(name: str) -> object:
    """``CheckIn`` and ``check_in``, which a verdict does without."""
    if name not in ("CheckIn", "check_in"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from prl.watch import checkin

    return getattr(checkin, name)


def status_of(run_dir: Path, now: float | None = None) -> Verdict:
    """How the run in ``run_dir`` is doing, as of ``now`` (Unix seconds; default: this moment)."""
    return assess(gather(run_dir, now))

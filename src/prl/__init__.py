"""prl: asynchronous reinforcement learning of language models that knows how each run is doing.

Importing the package imports nothing else: the run side (torch, verifiers) and the watch side (files only) are
entered through their own packages, and ``prl.open_run`` through :mod:`prl.rundir.run` when it is first used.
``docs/architecture.md`` draws the house.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prl.rundir.episodes.filters import Filters as Filters
    from prl.rundir.run import Run as Run
    from prl.rundir.run import open_run as open_run

__version__ = "0.1.0"

_PUBLIC = {
    "Filters": "prl.rundir.episodes.filters",
    "Run": "prl.rundir.run",
    "open_run": "prl.rundir.run",
}


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""From where a finding's evidence stands to the place in the pages that shows it: a pure function.

Evidence names its source as the watch side does: a file below the run, a process, an address, a program. What the pages
have no place for (a process, a disk, SLURM's answer) has no link.
"""

import re
from typing import Any

from prl.rundir.layout import EPISODE_INDEX, METRICS
from prl.watch.verdict import Evidence, Verdict

Link = dict[str, Any]

_LOG = re.compile(r"logs/(?:attempt_(\d+)/)?.+\.(?:log|err|out)")
_CONFIG = re.compile(r"configs/(?:attempt_(\d+)/)?.*")
_TRACES = EPISODE_INDEX.rpartition("/")[0]
_METRIC = re.compile(r"(?P<key>\S.*) = (?:-?[\d.]+(?:e[+-]?\d+)?|nan|-?inf)", re.S)
_NOT_A_NUMBER = " is not a number"


def link_of(evidence: Evidence, series: frozenset[str] = frozenset()) -> Link | None:
    """Where the pages show what this rests on; None: nowhere. ``series``: keys that a text may speak of in words."""
    source = evidence.source
    if source in METRICS:
        return _metrics(evidence, series)
    if ".." in source.split("/"):
        return None
    log = _LOG.fullmatch(source)
    if log is not None:
        return _link("logs", file=source, offset=evidence.offset, attempt=log[1])
    config = _CONFIG.fullmatch(source)
    if config is not None:
        return _link("configs", attempt=config[1])
    if source == EPISODE_INDEX or source.startswith(f"{_TRACES}/"):
        return _link("traces", step=evidence.step)
    return None


def series_of(verdict: Verdict) -> frozenset[str]:
    """The keys that the verdict's numbers come from."""
    numbers = verdict.numbers
    return frozenset(one.key for one in (*numbers.progress, *numbers.stability, *numbers.performance))


def _metrics(evidence: Evidence, series: frozenset[str]) -> Link | None:
    key = _key_in(evidence.text, series)
    return _link("metrics", key=key, at=evidence.step)


def _key_in(text: str, series: frozenset[str]) -> str | None:
    """The metric that a text gives the value of. A key may hold anything, ``=`` too: the last one counts."""
    if text.endswith(_NOT_A_NUMBER):
        return text.removesuffix(_NOT_A_NUMBER)
    told = _METRIC.fullmatch(text)
    if told is not None:
        return told["key"]
    named = [key for key in series if key in text]
    return max(named, key=len, default=None)


def _link(page: str, **params: object) -> Link:
    return {"page": page, "params": {name: str(value) for name, value in params.items() if value is not None}}

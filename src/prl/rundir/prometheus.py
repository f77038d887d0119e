"""A reader of Prometheus' text format, for the metrics pages of inference engines.

It takes what a page under load really looks like: cut in the middle of a line, with NaN and infinities, with labels
that hold escaped quotes, with a timestamp behind the value. What it cannot read it counts and skips. Left out: units,
exemplars and the OpenMetrics additions, which no engine of this system sends.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SAMPLE = re.compile(
    r"""(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
        (?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?
        [ \t]+(?P<value>\S+)(?:[ \t]+-?\d+)?[ \t]*""",
    re.VERBOSE,
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: ``name{label="x"} value``. ``value`` may be NaN or infinite."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(slots=True)
class MetricsPage:
    samples: list[Sample] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    """Family name to ``counter``, ``gauge``, ``histogram``, ``summary`` or ``untyped``, as the page declares it."""
    skipped: int = 0
    """Lines that could not be read, a cut last line included."""


def parse_page(text: str) -> MetricsPage:
    """Read a whole page. A last line without a newline was cut off and is not trusted."""
    page = MetricsPage()
    lines = text.split("\n")
    if lines.pop():
        page.skipped += 1
    for line in lines:
        stripped = line.strip()
        if not stripped:
            continue
        if stripped.startswith("#"):
            parts = stripped.split()
            if len(parts) == 4 and parts[1] == "TYPE":
                page.types[parts[2]] = parts[3]
            continue
        sample = _parse_sample(stripped)
        if sample is None:
            page.skipped += 1
        else:
            page.samples.append(sample)
    return page


def _parse_sample(line: str) -> Sample | None:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        return None
    try:
        value = float(match["value"])
    except ValueError:
        return None
    labels = {name: _ESCAPE.sub(_unescape, text) for name, text in _LABEL.findall(match["labels"] or "")}
    return Sample(match["name"], labels, value)


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]

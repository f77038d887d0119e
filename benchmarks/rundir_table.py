"""The table of ``benchmarks/rundir.py``: what is measured, at which size, and the figures to reach."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from rundir_data import Sizes

Found = dict[str, float]
"""Measured values by the name of their row."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    at: str
    unit: str
    """``ms``, ``s``, ``MB`` and ``share``: less is better. ``MB/s``: more is."""
    target: float | None
    """None: told for information."""

    def holds(self, value: float) -> bool | None:
        if self.target is None:
            return None
        return value >= self.target if self.unit == "MB/s" else value <= self.target


def rows(sizes: Sizes) -> dict[str, Row]:
    """The table's lines by the name under which cases measure them."""
    runs = f"{sizes.runs:,} runs"
    metrics = f"{sizes.metric_rows:,} rows x {sizes.metric_keys} keys"
    sparse = f"{sizes.metric_rows:,} rows, {sizes.sparse_keys:,} sparse keys"
    episodes, many = f"{sizes.episodes:,} episodes", f"{sizes.many_episodes:,} episodes"
    table = {
        "list.cold": Row("list of runs, cold", runs, "ms", 1000),
        "list.warm": Row("list of runs, warm", runs, "ms", 20),
        "list.again": Row("list of runs, after a restart", runs, "ms", None),
        "metrics.newest": Row("30 series at 1,000 points: newest 2,000 rows", metrics, "ms", 300),
        "metrics.cold": Row("30 series: complete, cold", metrics, "s", 4),
        "metrics.warm": Row("30 series: then", metrics, "ms", 50),
        "metrics.again": Row("30 series: after a restart", metrics, "ms", 300),
        "metrics.tail": Row("tail since a cursor", metrics, "ms", 5),
        "sparse.cold": Row("30 series: complete, cold", sparse, "s", None),
        "sparse.again": Row("30 series: after a restart", sparse, "ms", None),
    }
    for name, at, target in (("page", episodes, 10), ("million", many, 60)):
        table |= {
            f"{name}.time": Row("page of 128, by time", at, "ms", target),
            f"{name}.reward": Row("page of 128, by reward", at, "ms", target),
            f"{name}.filtered": Row("page of 128, filtered", at, "ms", target),
            f"{name}.cold": Row("table read, cold", at, "s", None),
            f"{name}.again": Row("table read, after a restart", at, "ms", None),
        }
    return table | {
        "open.first": Row("first open of an episode with annotations", episodes, "ms", 100),
        "open.others": Row("then others", episodes, "ms", 15),
        "series.first": Row("values of all episodes of an evaluation", f"{sizes.evaluated:,} episodes", "ms", 100),
        "search.plain": Row("text search", f"{sizes.episodes:,} episodes", "MB/s", 300),
        "search.plain.first": Row("text search, first hits", f"{sizes.episodes:,} episodes", "ms", 1000),
        "search.sealed": Row("text search, compressed", f"{sizes.sealed:,} episodes", "MB/s", 300),
        "search.sealed.first": Row("text search, compressed, first hits", f"{sizes.sealed:,} episodes", "ms", 1000),
        "log.all": Row("log search, whole file", f"{sizes.log_bytes / 1e9:g} GB", "MB/s", 500),
        "log.first": Row("log search, first hits", f"{sizes.log_bytes / 1e9:g} GB", "ms", 500),
        "memory": Row("anonymous memory at most", "all of the above in one process", "MB", 300),
        "write.append": Row("records of 90 kB with rows, encoded before", f"{sizes.written_megabytes} MB", "MB/s", 200),
        "write.whole": Row("the same with encoding", f"{sizes.written_megabytes} MB", "MB/s", None),
        "write.seal": Row("sealing", f"{sizes.written_megabytes} MB", "MB/s", 100),
        "write.slower": Row("a writer beside sealing is slower by", f"{sizes.written_megabytes} MB", "share", 0.1),
    }


def print_table(found: Found, table: dict[str, Row]) -> None:
    shown = Table("what", "at", "measured", "target", "holds")
    for name, row in table.items():
        if name in found:
            holds = row.holds(found[name])
            target = "" if row.target is None else f"{row.target:g} {row.unit}"
            word = "" if holds is None else "yes" if holds else "NO"
            shown.add_row(row.what, row.at, f"{found[name]:.4g} {row.unit}", target, word)
    Console(width=140).print(shown)

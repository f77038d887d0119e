"""What people and agents wrote about a run: ``reports/*.md`` and ``STATUS.md``.

Only the beginning of a report is read, for its title: the ``title`` of its front matter (lines between two ``---``),
else its first heading. Front matter is YAML to those who write it; here a line ``title: ...`` is all that is taken.
"""

from dataclasses import dataclass
from pathlib import Path

from prl.rundir.tree import RunTree

_HEAD = 4096
_MAX_TITLE = 200


@dataclass(frozen=True)
class Report:
    """A report on a run."""

    name: str
    """Its file, a name below the run directory: what :func:`read_report` takes."""
    title: str
    """Its own, else the name of its file."""
    bytes: int
    changed: float
    """When it was last written, Unix seconds."""


def list_reports(root: Path) -> list[Report]:
    """The reports of the run at ``root``, STATUS.md first, then by name. Raises nothing."""
    tree = RunTree(root)
    names = ["STATUS.md", *(f"reports/{name}" for name in tree.names("reports") if name.endswith(".md"))]
    reports = []
    for name in names:
        stat, head = tree.stat(name), tree.head(name, _HEAD)
        if stat is not None and head is not None:
            title = _title(head.decode(errors="replace")) or name.rpartition("/")[2].removesuffix(".md")
            reports.append(Report(name, title[:_MAX_TITLE], stat.st_size, stat.st_mtime))
    return reports


def read_report(root: Path, name: str) -> str | None:
    """The text of one of :func:`list_reports`; None for any other name, and when it cannot be read."""
    known = name == "STATUS.md" or (name.startswith("reports/") and name.endswith(".md") and name.count("/") == 1)
    return RunTree(root).text(name) if known else None


def _title(text: str) -> str | None:
    lines = text.split("\n")
    if lines[0].strip() == "---":
        for line in lines[1:]:
            if line.strip() == "---":
                break
            key, colon, value = line.partition(":")
            if colon and key.strip().lower() == "title" and value.strip():
                return value.strip().strip("\"'") or None
    return next((line.lstrip("#").strip() for line in lines if line.startswith("#") and line.strip("# \t\r")), None)

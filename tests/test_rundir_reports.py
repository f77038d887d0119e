"""What people and agents wrote about a run."""

import os
from pathlib import Path

import pytest

from made_up_runs import aged, write
from prl.rundir.reports import list_reports, read_report


def test_titles_from_front_matter_then_heading_then_name(tmp_path: Path) -> None:
    run = write(
        tmp_path,
        {
            "STATUS.md": "## 2026-11-29 10:00 UTC\n",
            "reports/a.md": '---\nauthor: x\ntitle: "Why it: stalled"\n---\n# Other\n',
            "reports/b.md": "text\n\n# Entropy   \n",
            "reports/c.md": "no title at all",
            "reports/d.md": b"---\n\xff\n",
            "reports/notes.txt": "",
        },
    )
    found = list_reports(aged(run, 50.0))
    assert [(report.name, report.title) for report in found] == [
        ("STATUS.md", "2026-11-29 10:00 UTC"),
        ("reports/a.md", "Why it: stalled"),
        ("reports/b.md", "Entropy"),
        ("reports/c.md", "c"),
        ("reports/d.md", "d"),
    ]
    assert (found[3].bytes, found[3].changed) == (15, 50.0)
    assert read_report(run, "reports/b.md") == "text\n\n# Entropy   \n"


@pytest.mark.parametrize(
    "name", ["../secret.md", "reports/../../secret.md", "reports/x/y.md", "configs/rl.toml", "reports/link.md", ""]
)
def test_other_names_are_not_read(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"secret.md": "secret", "run/configs/rl.toml": "x", "run/reports/x/y.md": "deep"})
    (tmp_path / "run/reports/link.md").symlink_to(tmp_path / "secret.md")
    assert read_report(tmp_path / "run", name) is None
    assert list_reports(tmp_path / "run") == []


def test_pipe_is_no_report(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    os.mkfifo(tmp_path / "reports/x.md")
    assert list_reports(tmp_path) == []

"""Which run somebody means."""

import os
from pathlib import Path

import pytest

from prl.rundir.discovery import RunNotFoundError, default_output_dir, find_run, is_run, last_change, list_runs


def make_run(output_dir: Path, name: str, changed: float = 1000.0) -> Path:
    run = output_dir / name
    metrics = run / "monitors/file/metrics.jsonl"
    metrics.parent.mkdir(parents=True)
    metrics.touch()
    for path in (metrics, run):
        os.utime(path, (changed, changed))
    return run


def test_newest_run_is_meant_when_nothing_is_said(tmp_path: Path) -> None:
    old, new = make_run(tmp_path, "a", 1000), make_run(tmp_path, "b", 2000)
    (tmp_path / "notes").mkdir()
    assert list_runs(tmp_path) == [new, old]
    assert find_run(None, tmp_path) == new
    assert last_change(new) == 2000


def test_run_by_path_name_and_unique_beginning(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path, "gsm--tiny--0a1b"), make_run(tmp_path, "gsm--tiny--ff00")
    assert find_run(str(run), tmp_path / "elsewhere") == run
    assert find_run("gsm--tiny--0a1b", tmp_path) == run
    assert find_run("gsm--tiny--0", tmp_path) == run


def test_name_wins_over_beginning(tmp_path: Path) -> None:
    run = make_run(tmp_path, "gsm")
    make_run(tmp_path, "gsm-long")
    assert find_run("gsm", tmp_path) == run


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (None, "no run below"),
        ("gsm", "beginning of 2 runs .*gsm-[12], gsm-[12]"),
        ("nothing", "there are gsm"),
        ("", "no run ''"),
        ("..", "not a run directory"),
    ],
)
def test_error_says_what_exists(tmp_path: Path, target: str | None, told: str) -> None:
    runs = tmp_path / "outputs"
    runs.mkdir()
    if target is not None:
        make_run(runs, "gsm-1")
        make_run(runs, "gsm-2")
    with pytest.raises(RunNotFoundError, match=told):
        find_run(str(tmp_path / "x" / "..") if target == ".." else target, runs)


def test_directory_of_runs_is_no_run(tmp_path: Path) -> None:
    make_run(tmp_path, "gsm")
    with pytest.raises(RunNotFoundError, match="holds the runs gsm"):
        find_run(str(tmp_path), tmp_path / "outputs")


def test_output_directory_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, "gsm")
    monkeypatch.setenv("PRL_OUTPUT_DIR", str(tmp_path))
    assert find_run(None) == run
    monkeypatch.setenv("PRL_OUTPUT_DIR", "")
    assert default_output_dir() == Path("outputs")


def test_absent_directory_and_link_loop_hold_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "absent") == []
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert list_runs(tmp_path) == []
    assert not is_run(tmp_path / "a")

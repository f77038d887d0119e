"""``prl check-in``: the verdict and its entry in STATUS.md."""

import json
import os
from pathlib import Path

from click.testing import CliRunner

from prl.cli.check_in import NOT_WRITTEN, check_in
from sample_runs import T0, SampleRun, running


def finished(tmp_path: Path) -> SampleRun:
    run, _ = running(tmp_path)
    run.finish(T0 + 50)
    return run


def test_appends_and_prints_the_verdict(tmp_path: Path) -> None:
    run = finished(tmp_path)
    for _ in range(2):
        result = CliRunner().invoke(check_in, [str(run.root)], standalone_mode=False)
        assert result.return_value == 0
        assert "Healthy: finished, step 12 / 40" in result.stdout
        assert f"Appended to {run.layout.status_md}" in result.stdout
    assert run.layout.status_md.read_text().count("**Health**: Healthy") == 2


def test_json_says_where_the_entry_is(tmp_path: Path) -> None:
    run = finished(tmp_path)
    result = CliRunner().invoke(check_in, [str(run.root), "--json"], standalone_mode=False)
    answer = json.loads(result.stdout)
    assert answer["status_md"] == {
        "path": str(run.layout.status_md),
        "written": True,
        "elsewhere": False,
        "problem": None,
    }
    assert (answer["phase"], answer["rows"]) == ("finished", [])


def test_unwritable_file_gives_the_verdict_and_its_own_exit_code(tmp_path: Path) -> None:
    run = finished(tmp_path)
    run.layout.status_md.mkdir()
    result = CliRunner().invoke(check_in, [str(run.root)], standalone_mode=False)
    assert result.return_value == NOT_WRITTEN
    assert "Healthy: finished" in result.stdout
    assert "nothing was appended" in result.stderr
    answer = json.loads(CliRunner().invoke(check_in, [str(run.root), "--json"], standalone_mode=False).stdout)
    assert (answer["status_md"]["written"], answer["ok"]) == (False, False)


def test_what_is_no_file_of_the_run_is_refused(tmp_path: Path) -> None:
    run = finished(tmp_path)
    outside = tmp_path / "outside.md"
    run.layout.status_md.symlink_to(outside)
    result = CliRunner().invoke(check_in, [str(run.root)], standalone_mode=False)
    assert result.return_value == NOT_WRITTEN
    assert "leaves the run directory" in result.stderr
    assert not outside.exists()
    run.layout.status_md.unlink()
    os.mkfifo(run.layout.status_md)
    result = CliRunner().invoke(check_in, [str(run.root)], standalone_mode=False)
    assert result.return_value == NOT_WRITTEN
    assert "named pipe" in result.stderr

"""A name in a run directory may be a link to anything. No reader follows one out of the run, and each says why."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from prl.cli.main import prl
from prl.rundir.annotations.locator import UpdateLocator, producers
from prl.rundir.derived import last_object
from prl.rundir.episodes.table import EpisodeTable
from prl.rundir.live.reader import read_pending
from prl.rundir.locate import has_logs, locate
from prl.rundir.matching import complete_lines
from prl.rundir.metrics.reader import read_metrics
from prl.rundir.metrics.store import MetricsStore
from prl.rundir.status import StatusError, load_status
from prl.synth import RunShape, write_run
from prl.watch.gather import gather
from prl.watch.last_entry import last_entry

METRICS = "monitors/file/metrics.jsonl"
TRACES = "monitors/file/traces"
LEAVES = "a link that leaves the run directory: not followed"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sample") / "run"
    write_run(root, RunShape(steps=3, episodes=4, group_size=2))
    return root


@pytest.fixture
def run(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))
    return Path(shutil.copytree(sample, tmp_path / "run", symlinks=True))


def move_out(run: Path, name: str) -> Path:
    """Put a part of a run elsewhere and a link in its place."""
    target = run.parent / "elsewhere"
    shutil.move(run / name, target)
    (run / name).symlink_to(target)
    return target


def prl_json(*arguments: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(CliRunner().invoke(prl, [*arguments, "--json"]).stdout)
    return answer


@pytest.mark.parametrize("name", [METRICS, "monitors/file", "monitors"])
def test_metrics_outside_are_not_read(run: Path, name: str) -> None:
    move_out(run, name)
    store = MetricsStore(run / METRICS)
    store.refresh()
    assert (store.rows, store.absent) == (0, False)
    assert store.trouble is not None and LEAVES in store.trouble
    assert store.newest().rows == 0
    assert LEAVES in str(read_metrics(run / METRICS).trouble)
    facts = gather(run, ask_engines=False, ask_slurm=False)
    assert facts.series == []
    assert f"{METRICS}: {LEAVES}" in facts.unknown or f"{name}: {LEAVES}" in facts.unknown


def test_nothing_of_a_file_outside_is_shown(run: Path) -> None:
    (run.parent / "passwd").write_text("root:x:0:0\n")
    (run / METRICS).unlink()
    (run / METRICS).symlink_to(run.parent / "passwd")
    for arguments in (["metrics"], ["status"], ["check-in"]):
        assert "root:x" not in CliRunner().invoke(prl, [*arguments, str(run)]).output


def test_what_was_kept_of_a_file_is_not_shown_once_it_is_outside(run: Path) -> None:
    store = MetricsStore(run / METRICS)
    store.refresh()
    store._keep()
    move_out(run, METRICS)
    again = MetricsStore(run / METRICS)
    again.refresh()
    assert again.rows == 0


@pytest.mark.parametrize("name", [TRACES, "monitors"])
def test_episodes_outside_are_not_read(run: Path, name: str) -> None:
    move_out(run, name)
    table = EpisodeTable(run / TRACES)
    table.refresh()
    assert table.count == 0
    assert f"stream.index.jsonl: {LEAVES}" in table.remarks
    assert producers(run / TRACES) == []
    assert last_object(run / TRACES / "stream.index.jsonl") is None
    assert list(complete_lines(run / TRACES / "stream.index.jsonl")) == []
    facts = gather(run, ask_engines=False, ask_slurm=False)
    assert facts.progress.episodes.value is None
    assert f"{name}: {LEAVES}" in facts.unknown


def test_an_index_outside_is_made_again_from_the_stream(run: Path) -> None:
    whole = EpisodeTable(run / TRACES)
    whole.refresh()
    move_out(run, f"{TRACES}/stream.index.jsonl")
    table = EpisodeTable(run / TRACES, cached=False)
    table.refresh()
    assert table.count == whole.count
    assert f"stream.index.jsonl: {LEAVES}" in table.remarks


def test_updates_are_read_without_an_index_outside(run: Path) -> None:
    index = run / TRACES / "annotations/orch.index.jsonl"
    trace_id = json.loads(index.read_bytes().split(b"\n")[0])["trace_id"]
    found = UpdateLocator(run / TRACES).updates([trace_id])
    move_out(run, f"{TRACES}/annotations/orch.index.jsonl")
    locator = UpdateLocator(run / TRACES)
    assert locator.updates([trace_id]) == found
    assert any(LEAVES in problem for problem in locator.problems)


def test_live_traces_outside_are_not_read(run: Path) -> None:
    pending = run / TRACES / "live/pending"
    pending.mkdir(parents=True, exist_ok=True)
    (pending / "a.json").write_text('{"id": "a"}')
    assert read_pending(run / TRACES)
    move_out(run, f"{TRACES}/live")
    assert read_pending(run / TRACES) == []


def test_the_launchers_word_outside_is_not_taken(run: Path) -> None:
    assert load_status(run / "launcher/status.json") is not None
    move_out(run, "launcher/status.json")
    with pytest.raises(StatusError, match=LEAVES):
        load_status(run / "launcher/status.json")
    facts = gather(run, ask_engines=False, ask_slurm=False)
    assert facts.launcher is None
    assert any(LEAVES in note for note in facts.unknown)


@pytest.mark.parametrize("name", ["configs/attempt_1/resolved", "configs"])
def test_configurations_outside_are_not_read(run: Path, name: str) -> None:
    move_out(run, name)
    files = locate(run)
    assert (files.resolved, f"{name}: {LEAVES}" in files.trouble) == (None, True)
    facts = gather(run, ask_engines=False, ask_slurm=False)
    assert (facts.configured, facts.env_servers, facts.run.model) == (False, [], None)
    assert f"{name}: {LEAVES}" in facts.unknown


def test_logs_outside_are_not_read(run: Path) -> None:
    assert has_logs(run, 1)
    move_out(run, "logs/attempt_1")
    assert not has_logs(run, 1)
    facts = gather(run, ask_engines=False, ask_slurm=False)
    assert facts.logs == []
    assert f"logs/attempt_1: {LEAVES}" in facts.unknown


def test_check_ins_outside_are_not_taken_for_the_runs(run: Path) -> None:
    assert CliRunner().invoke(prl, ["check-in", str(run)], standalone_mode=False).return_value == 0
    assert last_entry(run / "STATUS.md") is not None
    target = move_out(run, "STATUS.md")
    before = target.read_bytes()
    assert last_entry(run / "STATUS.md") is None
    assert CliRunner().invoke(prl, ["check-in", str(run)], standalone_mode=False).return_value == 74
    assert target.read_bytes() == before
    (run / "STATUS.md").unlink()
    (run / "STATUS.md").symlink_to("STATUS.md")
    result = CliRunner().invoke(prl, ["check-in", str(run)], standalone_mode=False)
    assert (result.return_value, "symbolic links" in result.stderr) == (74, True)


def test_a_run_that_is_itself_reached_by_a_link_is_read_whole(run: Path) -> None:
    (run.parent / "named").symlink_to(run)
    by_link = run.parent / "named"
    for name in ("metrics", "episodes"):
        there, here = (prl_json(name, str(path)) for path in (by_link, run))
        assert there["counts"] == here["counts"]
        assert there["rows"] == here["rows"]
    assert locate(by_link).trouble == ()
    assert load_status(by_link / "launcher/status.json") is not None


def test_links_within_the_run_are_followed(run: Path) -> None:
    shutil.move(run / "monitors/file", run / "kept")
    (run / "monitors/file").symlink_to("../kept")
    store = MetricsStore(run / METRICS)
    store.refresh()
    assert store.rows and store.trouble is None
    table = EpisodeTable(run / TRACES)
    table.refresh()
    assert table.count and not any(LEAVES in remark for remark in table.remarks)


@pytest.mark.parametrize("command", ["runs", "status", "metrics", "episodes", "logs", "check-in"])
def test_directories_that_may_not_be_entered_are_told(run: Path, command: str) -> None:
    """As root nothing is forbidden; a name longer than a file system takes cannot be asked about either."""
    for name in ("configs", "logs", "monitors"):
        shutil.rmtree(run / name)
    for name in ("configs", "logs", "monitors"):
        (run / name).symlink_to("x" * 255 + "/y" * 1500)
    target = str(run.parent if command == "runs" else run)
    result = CliRunner().invoke(prl, [command, target])
    assert result.exception is None or isinstance(result.exception, SystemExit)

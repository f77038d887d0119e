"""Which run somebody means."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from made_up_runs import aged, rl_files, write
from prl.rundir import discovery, remembered
from prl.rundir.discovery import RunNotFoundError, default_output_dir, discover, find_run, last_change, list_runs
from prl.rundir.recognition import is_run


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


# ---- lists of runs


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PRL_CACHE_DIR", str(directory))
    return directory


def test_several_directories_and_a_run_itself(tmp_path: Path) -> None:
    one = aged(write(tmp_path / "x/one", rl_files()), 1000)
    two = aged(write(tmp_path / "y/two", rl_files()), 3000)
    three = aged(write(tmp_path / "z/three", rl_files()), 2000)
    write(tmp_path / "x", {"notes.txt": "", "empty/a": "", ".hidden/configs/x": ""})
    found = discover([tmp_path / "x", two, tmp_path / "z", tmp_path / "absent"])
    assert [run.path for run in found.runs] == [two, three, one]
    assert (found.absent, found.problems) == ((tmp_path / "absent",), ())


def test_default_directory_is_looked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, "gsm")
    monkeypatch.setenv("PRL_OUTPUT_DIR", str(tmp_path))
    assert [run.name for run in discover().runs] == ["gsm"]
    monkeypatch.chdir(tmp_path / "gsm")
    assert [run.name for run in discover([Path()]).runs] == ["gsm"]


def test_run_with_two_names_is_listed_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "x", "gsm")
    (tmp_path / "x/alias").symlink_to(run)
    (tmp_path / "y").symlink_to("x")
    assert len(discover([tmp_path / "x", tmp_path / "y", run]).runs) == 1


def test_link_to_a_run_elsewhere_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "far", "gsm")
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs/mine").symlink_to(run)
    (found,) = discover([tmp_path / "outputs"]).runs
    assert (found.name, found.path, found.id.split("~")[0]) == ("mine", tmp_path / "outputs/mine", "gsm")


def test_runs_are_not_looked_for_in_runs(tmp_path: Path) -> None:
    make_run(tmp_path / "outer", "logs")
    make_run(tmp_path, "outer/inner")
    assert [run.name for run in discover([tmp_path]).runs] == ["outer"]


def test_circles_vanished_and_unreadable_entries_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path, "good")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    found = discover([tmp_path])
    assert [run.name for run in found.runs] == ["good"]
    assert found.problems == (f"{tmp_path}/loop: Too many levels of symbolic links",)

    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    again = discover([tmp_path])
    assert (again.runs, again.problems) == ((), (f"{tmp_path}: Permission denied",))


def test_directory_that_may_not_be_entered_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, "good")
    make_run(tmp_path, "locked")
    look_for = remembered.has_signs

    def refuse(path: Path) -> bool:
        if path.name == "locked":
            raise PermissionError(13, "Permission denied")
        return look_for(path)

    monkeypatch.setattr(remembered, "has_signs", refuse)
    for _ in range(2):
        found = discover([tmp_path])
        assert [run.name for run in found.runs] == ["good"]
        assert found.problems == (f"{tmp_path}/locked: Permission denied",)


def test_run_that_vanishes_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, "good")
    bad = make_run(tmp_path, "bad")
    read = remembered.read_run

    def remove_then_read(path: Path) -> object:
        if path == bad and path.exists():
            shutil.rmtree(path)
        return read(path)

    monkeypatch.setattr(remembered, "read_run", remove_then_read)
    assert "good" in [run.name for run in discover([tmp_path]).runs]
    assert [run.name for run in discover([tmp_path]).runs] == ["good"]


def test_thousand_runs(tmp_path: Path) -> None:
    for index in range(1000):
        step = {"step": index, "time": 5.0, "loss/mean": 1.0, "producer": "trainer"}
        aged(write(tmp_path / f"run-{index:04}", {"monitors/file/metrics.jsonl": [step]}), 1000 + index)
    calls: list[tuple[int, int]] = []
    found = discover([tmp_path], lambda done, total: calls.append((done, total)))
    assert [run.step for run in found.runs] == list(range(999, -1, -1))
    assert (len({run.id for run in found.runs}), calls[-1]) == (1000, (1000, 1000))
    calls.clear()
    assert discover([tmp_path], lambda done, total: calls.append((done, total))).runs == found.runs
    assert calls == []


def test_names_that_are_no_text(tmp_path: Path) -> None:
    make_run(tmp_path, os.fsdecode(b"caf\xe9"))
    for _ in range(2):
        remembered.Remembered._known.clear()
        (found,) = discover([tmp_path]).runs
        assert os.fsencode(found.name) == b"caf\xe9"
        assert found.id.startswith("caf\ufffd~")


# ---- by id, and of several directories


def test_run_by_its_id_wherever_it_lies(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "x", "gsm"), make_run(tmp_path / "y", "gsm")
    where = [tmp_path / "x", tmp_path / "y"]
    before = {run.path: run.id for run in discover(where[:1]).runs}
    ids = {run.path: run.id for run in discover(where).runs}
    assert ids[one] == before[one]  # a second run of that name changes nothing
    assert [find_run(ids[path], where) for path in (one, two)] == [one, two]
    with pytest.raises(RunNotFoundError, match=rf"2 runs .*'gsm': give one of the ids .*{ids[two]}"):
        find_run("gsm", where)
    with pytest.raises(RunNotFoundError, match="no run 'gsm~00000000'"):
        find_run("gsm~00000000", where)


def test_run_that_is_named_like_an_id_is_found_by_its_name(tmp_path: Path) -> None:
    run = make_run(tmp_path, "gsm~12345678")
    assert find_run("gsm~12345678", tmp_path) == run
    assert find_run("gsm~1", tmp_path) == run


def test_directory_that_is_a_run_is_found_among_directories(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "x", "a", 1000), make_run(tmp_path / "y", "b", 2000)
    assert find_run(None, [tmp_path / "x", two]) == two
    assert find_run("b", [tmp_path / "x", two]) == two
    assert find_run("a", [tmp_path / "x", two]) == one


def test_a_directory_that_may_not_be_entered_is_not_called_another_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()

    def refused(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(discovery, "has_signs", refused)
    with pytest.raises(RunNotFoundError, match="closed cannot be looked into: Permission denied"):
        find_run(str(closed))

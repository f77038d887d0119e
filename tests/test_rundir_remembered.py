"""What is remembered of a run holds until something in it changes, in this process and in the next."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made_up_runs import aged, rl_files, write
from prl.rundir import remembered
from prl.rundir.discovery import discover
from prl.rundir.remembered import Remembered
from prl.rundir.runs import RunInfo

RUN = "gsm"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PRL_CACHE_DIR", str(directory))
    return directory


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the runs that were read."""
    names: list[str] = []
    read = remembered.read_run

    def counted(path: Path) -> RunInfo:
        names.append(path.name)
        return read(path)

    monkeypatch.setattr(remembered, "read_run", counted)
    return names


def another_process() -> None:
    Remembered._known.clear()


def look(outputs: Path) -> RunInfo:
    (run,) = discover([outputs]).runs
    return run


def long_ago(days: int = 1) -> float:
    return time.time() - days * 86400


def test_quiet_run_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    aged(write(tmp_path / RUN, rl_files()), long_ago())
    first = look(tmp_path)
    another_process()
    assert (look(tmp_path), look(tmp_path), reads) == (first, first, [RUN])


def grow(name: str, row: dict[str, Any]) -> Callable[[Path], object]:
    def change(run: Path) -> None:
        with (run / name).open("a") as file:
            file.write(json.dumps(row) + "\n")

    return change


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (
            grow("monitors/file/metrics.jsonl", {"step": 13, "time": 2e9, "loss/mean": 1.0, "producer": "trainer"}),
            lambda run: run.step == 13,
        ),
        (
            grow("monitors/file/traces/stream.index.jsonl", {"line": 97, "arrival": 2e9}),
            lambda run: run.progress.episodes.value == 97,
        ),
        (
            lambda run: write(run, {"configs/attempt_2/resolved/trainer.json": {"max_steps": 99}}),
            lambda run: run.attempts == (1, 2) and run.max_steps == 99,
        ),
        (
            lambda run: write(run, {"launcher/status.json": {**rl_files()["launcher/status.json"], "phase": "failed"}}),
            lambda run: run.phase == "failed",
        ),
        (lambda run: write(run, {"metrics.jsonl": ""}), lambda run: True),
    ],
)
def test_change_is_seen(
    tmp_path: Path, reads: list[str], change: Callable[[Path], object], seen: Callable[[RunInfo], bool]
) -> None:
    run = aged(write(tmp_path / RUN, rl_files()), long_ago())
    look(tmp_path)
    change(run)
    assert seen(look(tmp_path))
    assert len(reads) == 2


def test_file_of_the_same_size_and_time_is_another_file(tmp_path: Path) -> None:
    run = aged(write(tmp_path / RUN, rl_files()), long_ago())
    look(tmp_path)
    status = run / "launcher/status.json"
    before = status.stat()
    status.write_text(status.read_text().replace('"running"', '"stopped"'))
    os.utime(status, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert status.stat().st_size == before.st_size
    assert look(tmp_path).phase == "stopped"


def test_file_that_appears_is_seen_by_the_directory_above_it(tmp_path: Path) -> None:
    files = {name: content for name, content in rl_files().items() if name.startswith(("configs", "logs"))}
    run = aged(write(tmp_path / RUN, files), long_ago())
    assert look(tmp_path).step is None
    write(run, {"launcher/status.json": rl_files()["launcher/status.json"]})
    assert (look(tmp_path).step, look(tmp_path).phase) == (12, "running")
    write(run, {"trainer_step": "20\n"})
    assert look(tmp_path).step == 20


def test_directory_that_becomes_a_run_and_one_that_goes(tmp_path: Path) -> None:
    aged(write(tmp_path / "later", {"notes": ""}), long_ago())
    aged(write(tmp_path / RUN, rl_files()), long_ago())
    assert [run.name for run in discover([tmp_path]).runs] == [RUN]
    write(tmp_path / "later", {"logs/trainer.log": ""})
    (tmp_path / RUN).rename(tmp_path.parent / f"{tmp_path.name}-moved")
    assert [run.name for run in discover([tmp_path]).runs] == ["later"]


def test_what_changed_a_moment_ago_is_read_again(tmp_path: Path, reads: list[str]) -> None:
    write(tmp_path / RUN, rl_files())
    look(tmp_path)
    look(tmp_path)
    assert reads == [RUN, RUN]


def test_young_attempt_is_watched_until_it_has_its_configuration(tmp_path: Path) -> None:
    run = write(tmp_path / RUN, {"configs/attempt_1/resolved/trainer.json": {}, "logs/attempt_1/trainer.log": ""})
    aged(run, time.time() - 60)
    assert look(tmp_path).train_envs == ()
    write(run, {"configs/attempt_1/resolved/orchestrator.json": {"train": {"source": [{"name": "gsm"}]}}})
    assert look(tmp_path).train_envs == ("gsm",)


def test_run_whose_launcher_said_how_it_ended_costs_less(tmp_path: Path, reads: list[str]) -> None:
    files = rl_files()
    files["launcher/status.json"] |= {"phase": "finished", "ended": 1.0, "exit_code": 0}
    run = aged(write(tmp_path / RUN, files), long_ago())
    look(tmp_path)
    (entry,) = Remembered.of(tmp_path)._entries.values()
    assert [place for place, _ in entry.signs] == ["", "/configs", "/launcher/status.json"]
    write(run, {"configs/attempt_2/rl.toml": ""})
    assert look(tmp_path).attempts == (1, 2)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"form": 1}', b'{"form": 1, "entries": {"gsm": [[], {}]}}'])
def test_damaged_cache_is_made_again(tmp_path: Path, cache: Path, reads: list[str], content: bytes) -> None:
    aged(write(tmp_path / RUN, rl_files()), long_ago())
    first = look(tmp_path)
    (file,) = cache.glob("*/*.json")
    file.write_bytes(content)
    another_process()
    assert (look(tmp_path), len(reads)) == (first, 2)


def test_nothing_is_written_below_the_runs_and_no_cache_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged(write(tmp_path / "outputs" / RUN, rl_files()), long_ago())
    before = sorted(tmp_path.rglob("*"))
    (tmp_path.parent / "file").touch()
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path.parent / "file/no"))
    assert look(tmp_path / "outputs").step == 12
    assert sorted(tmp_path.rglob("*")) == before


def test_link_that_is_pointed_elsewhere(tmp_path: Path) -> None:
    for name, step in (("one", 1), ("two", 2)):
        aged(write(tmp_path / "far" / name, rl_files(step=step)), long_ago(step))
    link = tmp_path / "outputs/mine"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "far/one")
    assert look(tmp_path / "outputs").step == 1
    link.unlink()
    link.symlink_to(tmp_path / "far/two")
    run = look(tmp_path / "outputs")
    assert (run.step, run.id.split("~")[0]) == (2, "two")


def test_same_directory_by_another_path_has_the_path_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    aged(write(tmp_path / "outputs" / RUN, rl_files()), long_ago())
    look(tmp_path / "outputs")
    monkeypatch.chdir(tmp_path)
    assert look(Path("outputs")).path == Path("outputs") / RUN
    assert reads == [RUN]

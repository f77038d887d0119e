"""Runs are found in the background, and whoever asks meanwhile gets what is known."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from made_up_runs import aged, rl_files, write
from prl.dashboard import scanner as scanner_module
from prl.dashboard.scanner import Scanner
from prl.rundir.discovery import RunList, discover


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner_module, "SECONDS", 0.02)


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        aged(write(tmp_path / name, rl_files()))
    return tmp_path


@pytest.fixture
def opened() -> Iterator[Callable[[list[Path]], Scanner]]:
    made: list[Scanner] = []

    def open_(dirs: list[Path]) -> Scanner:
        made.append(Scanner(dirs))
        return made[-1]

    yield open_
    for scanner in made:
        scanner.close()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def names(scanner: Scanner) -> list[str]:
    return sorted(run.name for run in scanner.found().runs)


def test_without_a_start_each_question_looks(outputs: Path) -> None:
    scanner = Scanner([outputs])
    assert names(scanner) == ["a", "b", "c"] and not scanner.found().scanning
    shutil.rmtree(outputs / "b")
    assert names(scanner) == ["a", "c"]


def test_in_the_background_runs_come_and_go(outputs: Path, opened: Callable[[list[Path]], Scanner]) -> None:
    scanner = opened([outputs])
    scanner.start()
    assert [run.name for run in scanner.found(wait=10).runs] != []
    version = scanner.found().version
    shutil.rmtree(outputs / "b")
    aged(write(outputs / "d", rl_files()))
    until(lambda: names(scanner) == ["a", "c", "d"])
    assert scanner.found().version > version


def test_nothing_changes_while_nothing_does(outputs: Path, opened: Callable[[list[Path]], Scanner]) -> None:
    scanner = opened([outputs])
    scanner.start()
    found = scanner.found(wait=10)
    looks = threading.Event()
    real = scanner._look

    def look() -> None:
        real()
        looks.set()

    scanner._look = look  # type: ignore[method-assign]
    assert looks.wait(10)
    assert scanner.found() is found


def test_the_first_answer_has_what_is_known_so_far(
    outputs: Path, opened: Callable[[list[Path]], Scanner], monkeypatch: pytest.MonkeyPatch
) -> None:
    second, go_on = threading.Event(), threading.Event()

    def slow(dirs: list[Path], on_found: Callable[[object], None]) -> RunList:
        count = 0

        def found(run: object) -> None:
            nonlocal count
            count += 1
            if count == 2:
                second.set()
                go_on.wait(10)
            on_found(run)

        return discover(dirs, on_found=found)

    monkeypatch.setattr(scanner_module, "discover", slow)
    scanner = opened([outputs])
    scanner.start()
    assert second.wait(10)
    part = scanner.found(wait=0.01)
    assert len(part.runs) == 1 and part.scanning
    assert scanner.get(part.runs[0].id) is part.runs[0]
    go_on.set()
    whole = scanner.found(wait=10)
    assert len(whole.runs) == 3 and not whole.scanning and whole.version > part.version


def test_directories_can_be_added_while_it_runs(
    outputs: Path, tmp_path_factory: pytest.TempPathFactory, opened: Callable[[list[Path]], Scanner]
) -> None:
    other = tmp_path_factory.mktemp("other")
    aged(write(other / "z", rl_files()))
    scanner = opened([outputs])
    scanner.start()
    assert len(scanner.found(wait=10).runs) == 3
    scanner.set_dirs([outputs, other])
    assert scanner.dirs == (outputs, other)
    until(lambda: names(scanner) == ["a", "b", "c", "z"])
    version = scanner.found().version
    scanner.set_dirs([outputs, other])
    assert scanner.found().version == version
    scanner.set_dirs([other])
    until(lambda: names(scanner) == ["z"] and not scanner.found().scanning)


def test_a_directory_that_is_not_there_is_no_run_and_no_error(tmp_path: Path) -> None:
    found = Scanner([tmp_path / "none"]).found()
    assert found.runs == () and not found.scanning


def test_a_look_that_fails_is_not_the_last(
    outputs: Path, opened: Callable[[list[Path]], Scanner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that is never looked at again would show for days what was there at first."""
    looks = iter([True])

    def fails_once(dirs: list[Path], **options: object) -> RunList:
        if next(looks, False):
            raise OSError("a disk that came back")
        return discover(dirs, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(scanner_module, "discover", fails_once)
    scanner = opened([outputs])
    scanner.start()
    until(lambda: names(scanner) == ["a", "b", "c"])


def test_who_asks_after_a_while_is_not_told_of_then(
    outputs: Path, opened: Callable[[list[Path]], Scanner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nobody asks the directories are looked at seldom; a script that asks once a minute hears what is there."""
    monkeypatch.setattr(scanner_module, "_ASKED_LATELY", 0.0)
    scanner = opened([outputs])
    scanner.start()
    assert len(scanner.found(10.0).runs) == 3
    aged(write(outputs / "d", rl_files()))
    assert len(scanner.found(10.0).runs) == 4

"""The merged logs of an attempt."""

import errno
import io
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prl.rundir.logs import clocks, windows
from prl.rundir.logs.cursors import CursorError
from prl.rundir.logs.entries import LogEntry
from prl.rundir.logs.merge import LogPage, RunLogs
from prl.rundir.regular import open_regular
from prl.rundir.search import Query

HEAD = "--- 2026-11-29 +0000 ---\n"


def write(root: Path, name: str, text: str | bytes) -> Path:
    path = root / "logs/attempt_1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def clock(second: int) -> str:
    return f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def messages(page: LogPage) -> list[str]:
    return [entry.message for entry in page.entries]


def all_pages(logs: RunLogs, limit: int, *, forward: bool, max_bytes: int = 1 << 20) -> list[LogEntry]:
    """Every entry, page by page."""
    taken: list[LogEntry] = []
    cursor: str | None = "" if forward else None
    while True:
        if forward:
            page = logs.page(limit=limit, after=cursor, max_bytes=max_bytes)
            taken += page.entries
            if cursor == page.newer:
                return taken
            cursor = page.newer
        else:
            page = logs.page(limit=limit, before=cursor, max_bytes=max_bytes)
            taken = page.entries + taken
            cursor = page.older
            if cursor is None:
                return taken


def test_components_are_merged_by_time(tmp_path: Path) -> None:
    write(tmp_path, "trainer.log", HEAD + "10:00:01    INFO t1\n10:00:03    INFO t3\n")
    write(tmp_path, "orchestrator.log", HEAD + "10:00:02    INFO o2\n10:00:04   ERROR o4\n")
    write(tmp_path, "envs/train/gsm.log", HEAD + "10:00:03    INFO e3\n")
    logs = RunLogs(tmp_path)
    assert messages(logs.page()) == ["t1", "o2", "t3", "e3", "o4"]
    assert messages(logs.page(level="ERROR")) == ["o4"]
    assert messages(logs.page(components=["envs"])) == ["e3"]
    assert messages(logs.page(query=Query("T[13]", regex=True))) == ["t1", "t3"]
    first = logs.page(limit=1).entries[0].time
    assert first is not None
    assert messages(logs.page(since=first - 1, until=first - 1)) == ["t3", "e3"]


def test_a_late_line_stays_where_it_stands(tmp_path: Path) -> None:
    write(tmp_path, "trainer.log", HEAD + "10:00:05    INFO a\n10:00:01    INFO late\n10:00:06    INFO b\n")
    write(tmp_path, "orchestrator.log", HEAD + "10:00:02    INFO x\n")
    assert messages(RunLogs(tmp_path).page()) == ["x", "a", "late", "b"]


def test_midnight_without_dates(tmp_path: Path) -> None:
    text = "".join(
        f"{time}    INFO {name}\n"
        for time, name in (("23:59:58", "a"), ("00:00:01", "c"), ("23:59:59", "late"), ("00:00:02", "d"))
    )
    path = write(tmp_path, "trainer.log", text)
    entries = RunLogs(tmp_path).page().entries
    times = [entry.time or 0 for entry in entries]
    assert [times[i] - times[0] for i in range(4)] == [0, 3, 1, 4]
    assert not any(entry.exact for entry in entries)
    assert 0 <= path.stat().st_mtime - times[-1] < 86400 + 300


def test_pages_give_every_entry_once_however_small(tmp_path: Path) -> None:
    for index in range(3):
        lines = "".join(f"{clock(3 * second + index)}    INFO {index}-{second}\n" for second in range(80))
        write(tmp_path, f"envs/train/e{index}.log", HEAD + lines)
    logs = RunLogs(tmp_path)
    expected = [f"{number % 3}-{number // 3}" for number in range(240)]
    for forward in (False, True):
        for limit, max_bytes in ((7, 1 << 20), (1000, 4096)):
            entries = all_pages(logs, limit, forward=forward, max_bytes=max_bytes)
            assert [entry.message for entry in entries] == expected


LINES = (
    "12:00:00    INFO a",
    "12:00:30 WARNING b",
    "11:59:00   ERROR c",
    "bare text",
    "Traceback (most recent call last):",
    "ValueError: x",
    "  indented",
    "\rbar 1%\rbar 2%",
    "[trainer1]:12:00:01    INFO r",
    "[trainer1]:more of r",
    "00:00:10    INFO next day",
    "--- 2026-11-30 +0000 ---",
    "",
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.sampled_from(LINES), max_size=30), min_size=1, max_size=3),
    st.integers(1, 9),
    st.booleans(),
)
def test_no_entry_is_lost_or_given_twice(tmp_path: Path, files: list[list[str]], limit: int, forward: bool) -> None:
    for index in range(3):
        lines = files[index] if index < len(files) else []
        write(tmp_path, f"envs/train/e{index}.log", "".join(f"{line}\n" for line in lines))
    logs = RunLogs(tmp_path)
    whole = [(entry.file, entry.offset) for entry in logs.page(limit=10_000).entries]
    entries = list(all_pages(logs, limit, forward=forward))
    paged = [(entry.file, entry.offset) for entry in entries]
    # A line that goes on behind the end of its page, past another rank's, may there look equal to the one before it:
    # the two are then one entry that counts two.
    repeats = [entry for entry in entries if entry.count > 1]
    lost = set(whole) - set(paged)
    assert [place for place in lost if not any(covers(entry, place) for entry in repeats)] == []
    assert len(set(paged)) == len(paged)


def covers(entry: LogEntry, place: tuple[str, int]) -> bool:
    file, offset = place
    return entry.file == file and entry.offset < offset < entry.end


def test_newer_cursor_gives_what_was_added(tmp_path: Path) -> None:
    path = write(tmp_path, "trainer.log", HEAD + "10:00:01    INFO a\n10:00:02    INFO not over")
    logs = RunLogs(tmp_path)
    page = logs.page()
    assert [(entry.message, entry.complete) for entry in page.entries] == [("a", True), ("not over", False)]
    with path.open("a") as file:
        file.write(" yet\n10:00:03    INFO b\n")
    write(tmp_path, "orchestrator.log", HEAD + "10:00:04    INFO new file\n")
    logs.refresh()
    assert messages(logs.page(after=page.newer)) == ["not over yet", "b", "new file"]


def test_a_replaced_file_begins_anew(tmp_path: Path) -> None:
    path = write(tmp_path, "trainer.log", HEAD + "10:00:01    INFO a\n" * 3)
    logs = RunLogs(tmp_path)
    page = logs.page()
    path.unlink()
    write(tmp_path, "trainer.log", HEAD + "10:00:09    INFO anew\n")
    assert messages(logs.page(after=page.newer)) == ["anew"]
    path.write_text("")
    assert logs.page().entries == []


def test_equal_lines_are_counted(tmp_path: Path) -> None:
    text = "".join(f"10:00:{second:02d} WARNING waiting\n" for second in range(50)) + "10:00:51    INFO on\n"
    write(tmp_path, "trainer.log", HEAD + text + "(Actor pid=1) removed [repeated 15x across cluster]\n")
    waiting, on, removed = RunLogs(tmp_path).page().entries
    assert (waiting.count, (waiting.last_time or 0) - (waiting.time or 0)) == (50, 49)
    assert (on.count, removed.count) == (1, 15)


def test_a_bar_of_many_states_is_one_entry_and_the_error_after_it_another(tmp_path: Path) -> None:
    bar = b"".join(b"\rRollouts: %5d/200000 [00:10<00:20, 9.9it/s]" % index for index in range(200_000))
    error = b'\rTraceback (most recent call last):\n  File "x.py", line 1\nValueError: after the bar\n'
    write(tmp_path, "orchestrator.log", b"12:00:00    INFO start\n" + bar + error)
    for page in (RunLogs(tmp_path).page(), RunLogs(tmp_path).page(after="")):
        start, drawn, failed = page.entries
        assert (start.message, drawn.states) == ("start", 200_000)
        assert drawn.message.startswith("Rollouts: 199999/200000")
        assert (failed.level, failed.exception) == ("ERROR", "ValueError: after the bar")
        assert (start.time, failed.time) == (drawn.time, start.time)


def test_a_line_without_an_end_is_met_where_it_begins(tmp_path: Path) -> None:
    text = b"10:00:00    INFO first\n10:00:01    INFO huge " + b"x" * (9 << 20) + b"\n10:00:02    INFO last\n"
    write(tmp_path, "trainer.log", HEAD.encode() + text)
    page = RunLogs(tmp_path).page()
    assert [entry.message[:5] for entry in page.entries] == ["first", "huge ", "last"]
    assert max(len(entry.message) for entry in page.entries) < 20_000


def test_a_traceback_longer_than_a_window_is_one_entry(tmp_path: Path) -> None:
    trace = "".join(f'  File "a.py", line {number}, in f\n    call()\n' for number in range(2000))
    text = f"10:00:00   ERROR Fatal error in train\nTraceback (most recent call last):\n{trace}ValueError: deep\n"
    write(tmp_path, "trainer.log", HEAD + "09:00:00    INFO before\n" * 2000 + text)
    entry = RunLogs(tmp_path).page(limit=1).entries[0]
    assert (entry.message, entry.exception) == ("Fatal error in train", "ValueError: deep")


def test_ranks_come_from_prefixes_or_their_own_files(tmp_path: Path) -> None:
    text = HEAD + "".join(f"[trainer{rank}]:10:00:00    INFO rank {rank}\n" for rank in range(3))
    write(tmp_path, "trainer.log", text)
    write(tmp_path, "trainer/torchrun/f0/attempt_0/1/stderr.log", HEAD + "10:00:01    INFO own 1\n")
    logs = RunLogs(tmp_path)
    assert messages(logs.page()) == ["rank 0", "rank 1", "rank 2"]  # a rank's own stream repeats lines
    assert messages(logs.page(ranks=[2])) == ["rank 2"]
    assert messages(logs.page(ranks=[1])) == ["own 1"]
    assert messages(logs.page(components=["trainer/rank_*"])) == ["own 1"]


def test_the_router_within_inference_log(tmp_path: Path) -> None:
    text = "10:00:00    INFO engine\n2026-11-29T10:00:01.5Z  INFO vllm_router_rs::server: started\n"
    write(tmp_path, "inference.log", HEAD + text)
    page = RunLogs(tmp_path).page(components=["router"])
    assert messages(page) == ["vllm_router_rs::server: started"]
    assert (page.entries[0].component, page.entries[0].exact) == ("router", True)


def test_attempt_is_pinned_and_cursors_are_of_one(tmp_path: Path) -> None:
    write(tmp_path, "trainer.log", HEAD + "10:00:00    INFO one\n")
    logs = RunLogs(tmp_path)
    newer = tmp_path / "logs/attempt_2/trainer.log"
    newer.parent.mkdir()
    newer.write_text(HEAD + "11:00:00    INFO two\n")
    page = logs.page()
    assert (logs.attempt, messages(page)) == (1, ["one"])
    second = RunLogs(tmp_path)
    assert (second.attempt, second.attempts, messages(second.page())) == (2, (1, 2), ["two"])
    with pytest.raises(CursorError, match="attempt 1"):
        second.page(after=page.newer)


@pytest.mark.parametrize("text", ["x", "!", "a" * 300_000, "ä", "mfrgg"])
def test_what_is_no_cursor_is_said(tmp_path: Path, text: str) -> None:
    write(tmp_path, "trainer.log", HEAD)
    with pytest.raises(CursorError, match="not a cursor"):
        RunLogs(tmp_path).page(before=text)


def test_unreadable_files_are_told_and_the_others_read(tmp_path: Path) -> None:
    write(tmp_path, "trainer.log", HEAD + "10:00:00    INFO fine\n")
    os.mkfifo(tmp_path / "logs/attempt_1/orchestrator.log")
    page = RunLogs(tmp_path).page()
    assert messages(page) == ["fine"]
    assert "named pipe" in page.trouble[0]
    with pytest.raises(ValueError, match="level 'LOUD'"):
        RunLogs(tmp_path).page(level="LOUD")


def test_a_long_log_is_dated_and_entered_in_the_middle(tmp_path: Path) -> None:
    # Three days at a line each ten seconds, without dates; read from the end, the middle, and by level.
    lines = [f"{clock(10 * index)}    INFO line {index} {'.' * 40}\n" for index in range(25_920)]
    lines[5] = f"{clock(50)}   ERROR early\n"
    path = write(tmp_path, "trainer.log", "".join(lines))
    os.utime(path, (1_800_000_000, 1_800_000_000))
    logs = RunLogs(tmp_path)
    last = logs.page(limit=1).entries[0].time or 0
    middle = logs.page(limit=1, until=last - 100_000)
    assert messages(middle)[0].split()[1] == str(25_919 - 10_000)
    assert middle.scanned_bytes < 300_000
    error = logs.page(level="ERROR")
    assert [entry.time for entry in error.entries] == [last - 10 * (25_919 - 5)]
    first = logs.page(limit=1, after="", since=last - 50_000)
    assert [entry.time for entry in first.entries] == [last - 50_000]


@pytest.mark.parametrize(("failures", "found"), [(1, ["fine"]), (1000, [])])
def test_a_stale_handle_is_opened_anew_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, found: list[str]
) -> None:
    write(tmp_path, "trainer.log", HEAD + "10:00:00    INFO fine\n")
    left = [failures]

    def open_stale(path: Path) -> io.BufferedReader:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(errno.ESTALE, "Stale file handle")
        return open_regular(path)

    for module in (clocks, windows):
        monkeypatch.setattr(module, "open_regular", open_stale)
    page = RunLogs(tmp_path).page()
    assert messages(page) == found
    assert page.trouble == (() if found else ("logs/attempt_1/trainer.log: Stale file handle",))


def even(tmp_path: Path) -> tuple[RunLogs, list[str]]:
    """Two logs that write every other second, long enough to be sampled."""
    for name, offset in (("trainer.log", 0), ("orchestrator.log", 1)):
        lines = (f"{clock(36_000 + 2 * n + offset)}    INFO {name[0]}{n} {'.' * 40}\n" for n in range(12_000))
        write(tmp_path, name, HEAD + "".join(lines))
    return RunLogs(tmp_path), [f"{name}{n}" for n in range(12_000) for name in "to"]


def test_a_cursor_at_a_moment_and_at_a_line_has_the_older_before_and_the_others_after(tmp_path: Path) -> None:
    logs, whole = even(tmp_path)
    first = logs.page(after="", limit=1).entries[0].time or 0.0
    for second in (0, 1, 7777, 23_999, 30_000):
        cursor = logs.cursor_at(first + second)
        assert [text.split()[0] for text in messages(logs.page(after=cursor, limit=3))] == whole[second : second + 3]
        before = [text.split()[0] for text in messages(logs.page(before=cursor, limit=3))]
        assert before == whole[max(min(second, len(whole)) - 3, 0) : second]
    path = tmp_path / "logs/attempt_1/trainer.log"
    offset = path.read_bytes().index(b"t5000 ")
    cursor = logs.cursor_of("logs/attempt_1/trainer.log", offset)
    assert messages(logs.page(after=cursor, limit=1))[0].startswith("t5000 ")
    assert messages(logs.page(before=cursor, limit=1))[0].startswith("o4999 ")
    only = logs.cursor_of("logs/attempt_1/trainer.log", offset, ["trainer"])
    assert [text.split()[0] for text in messages(logs.page(after=only, components=["trainer"], limit=2))] == [
        "t5000",
        "t5001",
    ]
    with pytest.raises(KeyError):
        logs.cursor_of("logs/attempt_1/other.log", 0)


def test_how_much_was_written_when(tmp_path: Path) -> None:
    logs, _ = even(tmp_path)
    (file,) = logs.files(["trainer"])
    spans = logs.spans(file)
    assert sum(size for _, _, size in spans) == file.path.stat().st_size
    assert spans[-1][1] - spans[0][0] == 2 * 11_999
    assert all(first <= last for first, last, _ in spans)
    line = f"{clock(36_000 + 14)}    INFO x"
    assert logs.moment(file, 400, line) == spans[0][0] + 14
    write(tmp_path, "empty.log", "")
    logs.refresh()
    assert logs.spans(logs.files(["empty"])[0]) == []

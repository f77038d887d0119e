"""The episode stream with its rows: golden files, restarts, and what is lost and made again."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from prl.rundir.chunks import Sealer
from prl.rundir.episodes.reader import iter_episodes, read_episode, read_index, read_values
from prl.rundir.episodes.writer import EpisodeWriter
from sample_episodes import make_episode, make_failure


def write(traces: Path, *names: str, clean: bool = False, chunk_bytes: int = 6_000) -> None:
    sealer = Sealer(traces / ".sealing")
    writer = EpisodeWriter(traces, chunk_bytes=chunk_bytes, sealer=sealer)
    for name in names:
        writer.append(make_episode(name))
    writer.close(clean=clean)
    assert sealer.close(10)


def check(traces: Path, *names: str) -> None:
    """Rows and records agree, one of each an episode, in order."""
    index, values = read_index(traces), read_values(traces)
    assert [row["id"] for row in index] == list(names)
    assert [row["line"] for row in index] == list(range(1, len(names) + 1))
    assert [(row["line"], row["id"]) for row in values] == [(row["line"], row["id"]) for row in index]
    assert [episode.record["id"] for episode in iter_episodes(traces)] == list(names)
    for row in index:
        assert read_episode(traces, row["chunk"], row["offset"])["traces"][0]["id"] == row["trace_ids"][0]


def test_files_as_the_contract_has_them(tmp_path: Path) -> None:
    writer = EpisodeWriter(tmp_path, chunk_bytes=10_000)
    writer.append(make_episode())
    writer.append(make_failure(), arrival=5.0)
    writer.close(clean=True)
    lines = (tmp_path / "stream" / "00000.jsonl").read_bytes().splitlines(keepends=True)
    rows = [json.loads(line) for line in (tmp_path / "stream.index.jsonl").read_bytes().splitlines()]
    assert [row["offset"] for row in rows] == [0, len(lines[0])]
    assert rows[1]["arrival"] == 5.0
    assert rows[1]["trace_ids"] == []
    first = json.loads(lines[0])
    assert list(first)[:5] == ["id", "env", "group", "run", "ok"]
    assert first["traces"][0]["info"]["arrival"] == {"step": 12, "time": 1_790_000_041.5}
    values = [json.loads(line) for line in (tmp_path / "stream.values.jsonl").read_bytes().splitlines()]
    assert values[0]["traces"][0]["rewards"] == {"win": {"score": 0.75, "weight": 1.0}}
    assert values[1] == {
        "line": 2,
        "id": "f1",
        "task": {"type": "WordTask", "key": "w-17", "hash": None},
        "dispatch_step": 12,
        "arrival_step": None,
        "policy": {"start": 11, "end": 12},
        "traces": [],
    }


def test_numbers_go_on_over_restarts_and_chunks(tmp_path: Path) -> None:
    write(tmp_path, "a", "b", "c", "d")
    write(tmp_path, "e", clean=True)
    write(tmp_path, "f")
    check(tmp_path, *"abcdef")
    names = sorted(path.name for path in (tmp_path / "stream").iterdir())
    assert len(names) > 3
    assert all(name.endswith(".zst") for name in names[:-1])
    assert names[-1].endswith(".jsonl"), "what follows a clean end goes to a new chunk"


def lose_last_row(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def tear_last_row(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    "files", [["stream.index.jsonl"], ["stream.values.jsonl"], ["stream.index.jsonl", "stream.values.jsonl"]]
)
@pytest.mark.parametrize("harm", [lose_last_row, tear_last_row, Path.unlink])
def test_rows_that_are_missing_are_made_again(tmp_path: Path, files: list[str], harm: Any) -> None:
    write(tmp_path, "a", "b", "c", "d")
    expected = {name: (tmp_path / name).read_bytes() for name in ("stream.index.jsonl", "stream.values.jsonl")}
    for name in files:
        harm(tmp_path / name)
    write(tmp_path, "e")
    check(tmp_path, *"abcde")
    for name, rows in expected.items():
        assert (tmp_path / name).read_bytes().startswith(rows), "a row that is made again is the same row"


def test_a_torn_record_is_closed_and_counted_out(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    chunk = tmp_path / "stream" / "00000.jsonl"
    chunk.write_bytes(chunk.read_bytes()[:-50])
    lose_last_row(tmp_path / "stream.index.jsonl")
    lose_last_row(tmp_path / "stream.values.jsonl")
    write(tmp_path, "c")
    check(tmp_path, "a", "c")


def test_a_record_that_lacks_only_its_newline_counts(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    chunk = tmp_path / "stream" / "00000.jsonl"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    lose_last_row(tmp_path / "stream.index.jsonl")
    write(tmp_path, "c")
    check(tmp_path, "a", "b", "c")


def test_readers_make_rows_from_the_stream_where_files_are_missing(tmp_path: Path) -> None:
    write(tmp_path, "a", "b", "c", "d")
    index, values = read_index(tmp_path), read_values(tmp_path)
    (tmp_path / "stream.index.jsonl").unlink()
    (tmp_path / "stream.values.jsonl").unlink()
    assert read_index(tmp_path) == index
    assert read_values(tmp_path) == values
    shutil.rmtree(tmp_path / "stream")
    assert read_index(tmp_path) == []
    with pytest.raises(OSError, match="no such chunk"):
        read_episode(tmp_path, 0, 0)

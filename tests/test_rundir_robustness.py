"""What no reader of a run may do with any bytes, and what a writer that is killed may cost."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir import jsonl
from prl.rundir.annotations.reader import read_index as read_annotation_index
from prl.rundir.annotations.writer import AnnotationWriter
from prl.rundir.chunks import Sealer, iter_objects, read_line, seal
from prl.rundir.episodes.reader import iter_episodes, read_episode, read_index, read_values
from prl.rundir.episodes.record import index_row, values_row
from prl.rundir.episodes.search import search_episodes
from prl.rundir.episodes.writer import EpisodeWriter
from prl.rundir.logs.search import search_log
from prl.rundir.search import Query
from sample_episodes import make_episode

GOOD = st.integers(0, 99).map(lambda i: b'{"i":%d,"task":{"data":"needle"}}' % i)
BAD = st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")) | st.sampled_from(
    [
        b"{",
        b"[1]",
        b"NaN",
        b"\0" * 64,
        b'{"task":{"data":"needle',
        b"needle",
        b'{"i":"caf\xe9 needle"',
        b"\x1b[31mneedle",
    ]
)


def is_object(line: bytes) -> bool:
    try:
        jsonl.decode(line)
    except ValueError:
        return False
    return True


def chunk(directory: Path, data: bytes) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "00000.jsonl.zst").unlink(missing_ok=True)
    (directory / "00000.jsonl").write_bytes(data)


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces") / "stream"


@given(st.lists(GOOD | BAD, max_size=8), st.booleans())
def test_every_good_line_is_read_and_every_bad_one_counted(stream: Path, lines: list[bytes], sealed: bool) -> None:
    content = b"".join(line + b"\n" for line in lines)
    chunk(stream, content)
    if sealed:
        seal(stream, 0, stream.parent / "w")
    damage = jsonl.Damage()
    good = [(offset, value) for _, offset, value in iter_objects(stream, damage)]
    assert [value for _, value in good] == [jsonl.decode(line)[0] for line in lines if is_object(line)]
    assert damage.lines == sum(bool(line.strip()) and not is_object(line) for line in lines)
    assert all(content[offset:].startswith(read_line(stream, 0, offset) + b"\n") for offset, _ in good)
    places = [offset for offset, value in good if value.get("task") == {"data": "needle"}]
    for newest_first in (False, True):
        found = search_episodes(stream.parent, Query("needle"), newest_first=newest_first)
        assert [hit.offset for hit in found.hits] == (places[::-1] if newest_first else places)


@given(st.binary(max_size=200), st.binary(max_size=200), st.text(min_size=1, max_size=3), st.booleans())
def test_any_bytes_as_any_file(stream: Path, data: bytes, other: bytes, text: str, regex: bool) -> None:
    chunk(stream, data)
    (stream / "00001.jsonl.zst").write_bytes(other)
    (stream.parent / "stream.index.jsonl").write_bytes(other)
    (stream.parent / "stream.values.jsonl").write_bytes(data)
    try:
        list(iter_episodes(stream.parent))
        list(read_index(stream.parent))
        list(read_values(stream.parent))
        query = Query("[a-z]+", regex=True) if regex else Query(text)
        assert search_episodes(stream.parent, query, max_hits=1000).done
        assert search_log(stream / "00000.jsonl", query, max_hits=1000).done
    finally:
        (stream / "00001.jsonl.zst").unlink()
        (stream.parent / "stream.index.jsonl").unlink()
        (stream.parent / "stream.values.jsonl").unlink()


@given(st.lists(GOOD | BAD, max_size=6), st.data())
def test_a_file_cut_anywhere_and_grown_again_reads_as_the_whole(stream: Path, lines: list[bytes], data: Any) -> None:
    content = b"\n".join(lines)
    cut = data.draw(st.integers(0, len(content)))
    path = stream.parent / "grown.jsonl"
    path.write_bytes(content[:cut])
    tail = jsonl.Tail(path)
    found = tail.poll()
    path.write_bytes(content)
    found += tail.poll()
    assert (found, tail.damage) == jsonl.read_lines(path)

    chunk(stream, content[:cut])
    before = [(offset, value) for _, offset, value in iter_objects(stream, jsonl.Damage())]
    start = before[-1][0] if before else 0
    chunk(stream, content)
    whole = [(offset, value) for _, offset, value in iter_objects(stream, jsonl.Damage())]
    rest = [(offset, value) for _, offset, value in iter_objects(stream, jsonl.Damage(), offset=start)]
    assert [*before[:-1], *rest] == whole


WRITER = """
import sys, os
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from sample_episodes import make_episode
from prl.rundir.annotations.writer import AnnotationWriter
from prl.rundir.chunks import Sealer
from prl.rundir.episodes.writer import EpisodeWriter
traces = Path(sys.argv[1])
sealer = Sealer(traces / ".sealing")
episodes = EpisodeWriter(traces, chunk_bytes=60_000, sealer=sealer)
updates = AnnotationWriter(traces, "orch", chunk_bytes=2_000, sealer=sealer)
first = int(sys.argv[3])
for i in range(first, 1_000_000):
    episodes.append(make_episode(f"e{i}", tokens=900))
    updates.append({"trace_id": f"t-e{i}", "info": {"ship": {"step": i}}, "branches": []})
    os.write(1, b"%d\\n" % (i + 1))
"""


def killed_writer(traces: Path, first: int, seconds: float) -> int:
    """Let a process write episodes from number ``first`` on and kill it. How many it said were written."""
    command = [sys.executable, "-c", WRITER, str(traces), str(Path(__file__).parent), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        said += process.stdout.read()
    whole = said[: said.rfind(b"\n")].split(b"\n")
    return int(whole[-1])


def check_rows(traces: Path) -> int:
    """Index, values and annotation rows say what the streams hold. How many episodes there are."""
    damage = jsonl.Damage()
    episodes = list(iter_episodes(traces, damage))
    assert [episode.record["id"] for episode in episodes] == [f"e{i}" for i in range(len(episodes))]
    rows = [
        index_row(episode.record, line=line, chunk=episode.chunk, offset=episode.offset)
        for line, episode in enumerate(episodes, start=1)
    ]
    assert read_index(traces) == orjson.loads(orjson.dumps(rows))
    values = [values_row(episode.record, line=line) for line, episode in enumerate(episodes, start=1)]
    assert read_values(traces) == orjson.loads(orjson.dumps(values))
    assert all(read_episode(traces, row["chunk"], row["offset"])["id"] == row["id"] for row in rows[::17])
    updates = list(iter_objects(traces / "annotations" / "orch", jsonl.Damage()))
    placed = [(value["trace_id"], number, offset) for number, offset, value in updates]
    index = read_annotation_index(traces, "orch")
    assert [(row["trace_id"], row["chunk"], row["offset"]) for row in index] == placed
    return len(episodes)


def test_a_writer_killed_at_any_moment_loses_at_most_the_last_record(tmp_path: Path) -> None:
    written = 0
    moments = random.Random(7)
    for _ in range(5):
        said = killed_writer(tmp_path, written, moments.uniform(0, 0.15))
        sealer = Sealer(tmp_path / ".sealing")
        for writer in (
            EpisodeWriter(tmp_path, chunk_bytes=60_000, sealer=sealer),
            AnnotationWriter(tmp_path, "orch", chunk_bytes=2_000, sealer=sealer),
        ):
            writer.close(clean=False)  # opening it takes up what was left
        assert sealer.close(60)
        found = check_rows(tmp_path)
        assert said <= found <= said + 1
        written = found
    episodes = EpisodeWriter(tmp_path, chunk_bytes=60_000)
    episodes.append(make_episode(f"e{written}"))
    episodes.close(clean=True)
    assert check_rows(tmp_path) == written + 1

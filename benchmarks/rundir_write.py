"""How fast the run directory is written: episodes of about 90 kB with their rows, and sealing of chunks.

    python benchmarks/rundir_write.py [--megabytes 400] [--dir DIR]

Prints one JSON object: MB/s (1 MB = 10^6 bytes of the uncompressed stream) of appending episodes with both rows
flushed, of the same without turning records into JSON, of the file system's part alone, and of sealing; these run in
one thread. Then how much slower a writer is while chunks are sealed in the background: the median ratio of appends side
by side, without and with sealing, in turns.
"""

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.chunks import FRAME_BYTES, ChunkWriter, Sealer, seal, sealed_path
from prl.rundir.derived import DerivedRows
from prl.rundir.episodes.record import index_row, stored_record, values_row
from prl.rundir.episodes.writer import EpisodeWriter

TURNS = 5
"""Appends without and with sealing that are compared."""
SEALED_SHARE = 4
"""The chunk that is sealed meanwhile is so many times larger than what is written: sealing lasts longer."""

WORDS = [f"word{i}" for i in range(2000)]


def make_episode(number: int, rng: random.Random) -> dict[str, Any]:
    """A made-up episode of two turns with 1500 prompt and 2000 sampled tokens: close to 90 kB stored."""
    nodes: list[dict[str, Any]] = []
    for turn in range(4):
        sampled = turn % 2 == 1
        length = 1000 if sampled else 750
        nodes.append(
            {
                "parent": turn - 1 if turn else None,
                "message": {
                    "role": "assistant" if sampled else "user",
                    "content": " ".join(rng.choices(WORDS, k=length // 2)),
                },
                "sampled": sampled,
                "timestamp": 1.79e9 + number,
                "token_ids": [rng.randrange(150_000) for _ in range(length)],
                "mask": [sampled] * length,
                "is_content": [sampled] * length,
                "logprobs": [-rng.expovariate(2.0) for _ in range(length)] if sampled else [],
                "semantic_parents": [],
            }
        )
    task = {"type": "Task", "data": {"idx": number, "answer": "x" * 100}, "key": str(number)}
    trace = {
        "version": 1,
        "id": f"t{number}",
        "task": task,
        "agent": {"name": "agent", "trainable": True, "config": {"model": "m", "sampling": {"temperature": 1.0}}},
        "nodes": nodes,
        "calls": [],
        "rewards": {"reward": {"score": rng.random(), "weight": 1.0}},
        "metrics": {"turns": 2.0},
        "info": {},
        "ok": True,
        "errors": [],
        "timing": {"start": 1.79e9},
    }
    return {"id": f"e{number}", "env": {"id": "made-up"}, "task": task, "ok": True, "errors": [], "traces": [trace]}


def measure(directory: Path, megabytes: int) -> dict[str, Any]:
    rng = random.Random(0)
    episodes = [make_episode(number, rng) for number in range(64)]
    lines = [jsonl.encode(stored_record(episode, 4)) for episode in episodes]
    count = max(1, megabytes * 10**6 // (sum(map(len, lines)) // len(lines)))
    total = sum(len(lines[i % len(lines)]) for i in range(count))

    warm_up = EpisodeWriter(directory / "warm-up", chunk_bytes=2**40)
    warm_up.append(episodes[0])  # imports numpy
    warm_up.close(clean=False)

    writer = EpisodeWriter(directory / "traces", chunk_bytes=2**40)
    start = time.perf_counter()
    for i in range(count):
        writer.append(episodes[i % len(episodes)])
    append_seconds = time.perf_counter() - start
    writer.close(clean=False)

    encoded_seconds = append_encoded(directory / "encoded", episodes, lines, count)

    raw = jsonl.Appender(directory / "raw.jsonl")
    start = time.perf_counter()
    for i in range(count):
        raw.append(lines[i % len(lines)])
    raw_seconds = time.perf_counter() - start
    raw.close()

    stream = directory / "traces" / "stream"
    start = time.perf_counter()
    seal(stream, 0, directory / "sealing")
    seal_seconds = time.perf_counter() - start
    return {
        "episodes": count,
        "bytes_per_episode": total // count,
        "append_mb_per_s": round(total / append_seconds / 1e6, 1),
        "append_encoded_mb_per_s": round(total / encoded_seconds / 1e6, 1),
        "file_system_mb_per_s": round(total / raw_seconds / 1e6, 1),
        "seal_mb_per_s": round(total / seal_seconds / 1e6, 1),
        "seal_ratio": round(total / sealed_path(stream, 0).stat().st_size, 2),
        "frame_bytes": FRAME_BYTES,
        "slower_while_sealing": round(slower_while_sealing(directory, episodes, count), 3),
    }


def append_encoded(directory: Path, episodes: list[dict[str, Any]], lines: list[bytes], count: int) -> float:
    """Seconds of appending records that are JSON already, each with its two rows."""
    stream = ChunkWriter(directory / "stream", chunk_bytes=2**40, sealer=None)
    index, values = DerivedRows(directory / "index.jsonl"), DerivedRows(directory / "values.jsonl")
    rows = [(values_row(episode, line=1), index_row(episode, line=1, chunk=0, offset=0)) for episode in episodes]
    start = time.perf_counter()
    for i in range(count):
        stream.append(lines[i % len(lines)])
        values.append(rows[i % len(rows)][0])
        index.append(rows[i % len(rows)][1])
    seconds = time.perf_counter() - start
    for file in (index, values):
        file.close()
    stream.close(seal_last=False)
    return seconds


def slower_while_sealing(directory: Path, episodes: list[dict[str, Any]], count: int) -> float:
    """How much longer a writer takes for its episodes while a thread of its process seals chunks: 0.1 is a tenth."""
    _append(directory / "source", episodes, count)
    source = directory / "source" / "stream" / "00000.jsonl"
    ratios = []
    for _ in range(TURNS):
        alone = _append(directory / "written", episodes, count // SEALED_SHARE)
        chunk = directory / "sealed" / "00000.jsonl"
        chunk.parent.mkdir()
        chunk.hardlink_to(source)
        sealer = Sealer(directory / "sealing")
        sealer.submit(chunk.parent, 0)
        beside = _append(directory / "written", episodes, count // SEALED_SHARE)
        ratios.append(beside / alone - 1)
        sealer.close(60.0)
        shutil.rmtree(chunk.parent)
    return statistics.median(ratios)


def _append(traces: Path, episodes: list[dict[str, Any]], count: int) -> float:
    """Seconds of appending so many episodes to a new stream, which stays."""
    shutil.rmtree(traces, ignore_errors=True)
    writer = EpisodeWriter(traces, chunk_bytes=2**40)
    start = time.perf_counter()
    for i in range(count):
        writer.append(episodes[i % len(episodes)])
    seconds = time.perf_counter() - start
    writer.close(clean=False)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--dir", type=Path, default=None, help="where to write (default: the temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        print(json.dumps(measure(Path(directory), arguments.megabytes), indent=2))


if __name__ == "__main__":
    main()

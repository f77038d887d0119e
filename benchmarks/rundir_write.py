"""How fast the run directory is written: episodes of about 90 kB with their rows, and sealing of chunks.

    python benchmarks/rundir_write.py [--megabytes 400] [--dir DIR]

Prints one JSON object: MB/s (1 MB = 10^6 bytes of the uncompressed stream) of appending episodes with both rows
flushed, the part of it that is the file system's, and MB/s of sealing. Everything runs in one thread.
"""

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from prl.rundir import jsonl
from prl.rundir.chunks import FRAME_BYTES, seal, sealed_path
from prl.rundir.episodes.record import stored_record
from prl.rundir.episodes.writer import EpisodeWriter

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
        "file_system_mb_per_s": round(total / raw_seconds / 1e6, 1),
        "seal_mb_per_s": round(total / seal_seconds / 1e6, 1),
        "seal_ratio": round(total / sealed_path(stream, 0).stat().st_size, 2),
        "frame_bytes": FRAME_BYTES,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--dir", type=Path, default=None, help="where to write (default: the temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        print(json.dumps(measure(Path(directory), arguments.megabytes), indent=2))


if __name__ == "__main__":
    main()

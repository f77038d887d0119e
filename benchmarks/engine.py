"""Throughput of the inference server over HTTP: `python benchmarks/engine.py [--rounds N]`.

Starts `inference` as its own process (one torch thread) with a random model of 2 layers and hidden size 128, the demo's
size, and asks `/inference/v1/generate` from an aiohttp client for whole batches: every request is sent at once and the
round ends with the last answer. Prompts have 12 to 30 tokens; groups of 8 share one, as rollouts of a task do. Prints
seconds to healthy, and for each load the median tokens per second and the server's CPU seconds a round.
"""

import argparse
import asyncio
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import psutil

from prl.trainer.tiny import make_tiny_model

LOADS = ((128, 10), (64, 32), (8, 32), (1, 32))
"""(requests at once, tokens each)."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def wait_healthy(session: aiohttp.ClientSession, url: str, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            async with session.get(f"{url}/health") as response:
                if response.status == 200:
                    return
        except aiohttp.ClientError:
            await asyncio.sleep(0.01)
    raise SystemExit("the server ended during its start")


async def one_round(session: aiohttp.ClientSession, url: str, requests: int, tokens: int, rng: random.Random) -> float:
    """Seconds for a batch of ``requests`` completions of exactly ``tokens`` tokens."""
    prompts = [[rng.randrange(256) for _ in range(rng.randint(12, 30))] for _ in range(-(-requests // 8))]

    async def ask(index: int) -> int:
        body = {
            "token_ids": prompts[index // 8],
            "sampling_params": {"temperature": 1.0, "max_tokens": tokens, "ignore_eos": True, "logprobs": 1},
        }
        async with session.post(f"{url}/inference/v1/generate", json=body) as response:
            answer = await response.json()
            return len(answer["choices"][0]["token_ids"])

    start = time.perf_counter()
    counts = await asyncio.gather(*map(ask, range(requests)))
    seconds = time.perf_counter() - start
    assert sum(counts) == requests * tokens
    return seconds


async def measure(url: str, process: subprocess.Popen[bytes], started: float, rounds: int) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await wait_healthy(session, url, process)
        print(f"healthy after {time.perf_counter() - started:.1f} s")
        print(f"{'requests':>9} {'tokens':>7} {'tok/s median':>13} {'best':>8} {'ms a round':>11} {'CPU ms':>7}")
        server = psutil.Process(process.pid)
        for requests, tokens in LOADS:
            rng = random.Random(0)
            await one_round(session, url, requests, tokens, rng)
            before = sum(server.cpu_times()[:2])
            seconds = [await one_round(session, url, requests, tokens, rng) for _ in range(rounds)]
            cpu = (sum(server.cpu_times()[:2]) - before) / rounds
            median = statistics.median(seconds)
            total = requests * tokens
            print(
                f"{requests:9} {tokens:7} {total / median:13,.0f} {total / min(seconds):8,.0f} "
                f"{1000 * median:11.1f} {1000 * cpu:7.1f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        model = make_tiny_model(Path(directory) / "model")
        port, backend = free_port(), free_port()
        command = [sys.executable, "-m", "prl.cli.inference", "--model.name", str(model), "--server.port", str(port)]
        command += ["--backend_port", str(backend), "--engine.max_num_seqs", "128", "--output_dir", directory]
        started = time.perf_counter()
        process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
        try:
            asyncio.run(measure(f"http://127.0.0.1:{port}", process, started, rounds))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


if __name__ == "__main__":
    main()

"""CPU and throughput of environment episodes against an engine that answers at once.

    python benchmarks/env_server.py [--episodes 1000] [--concurrency 32] [--each]

One worker plays single-turn ``reverse-text`` episodes (five letters, six sampled tokens, the 265-token byte-level
tokenizer, ``default`` renderer). ``plain`` is verifiers 0.4.0's own server with the chat harness over HTTP; ``tuned``
is this project's worker; ``--each`` leaves out one tuning at a time. CPU is user and system time of the worker process
alone, per episode. The engine and the client share the cores with it, so episodes a second are a lower bound.

Measured on two shared cores, Python 3.11, 1,000 episodes:

======================================  ==============  ==========
variant                                 ms CPU/episode  episodes/s
======================================  ==============  ==========
plain                                            10.49          91
tuned                                             2.54         335
without remember_default_factories                5.44         160
without ask_engine_over_aiohttp                   4.75         185
without call_interception_directly                4.39         194
without remember_harness_classes                  2.94         278
without copy_cursors_flat                         2.68         363
without make_workspaces_on_demand                 4.17         204
without remember_prompts                          4.19         193
without collect_garbage_rarely                    3.49         288
======================================  ==============  ==========
"""

import argparse
import asyncio
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil

WARM_UP = 100


def engine(port: Any) -> None:
    """Serve one completion, prepared once, to everyone."""
    import orjson
    from aiohttp import web

    ids = [*b"olleh", 258]
    content = [{"token": f"token_id:{token}", "logprob": -0.5} for token in ids]
    choice = {"index": 0, "token_ids": ids, "finish_reason": "stop", "logprobs": {"content": content}}
    reply = orjson.dumps({"request_id": "r", "choices": [choice]})

    async def generate(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=reply, content_type="application/json")

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/inference/v1/generate", generate)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(serve())


def serve(address: str, variant: str) -> None:
    """A worker of one variant, until it is killed."""
    from verifiers.v1.serve.server import EnvServer

    from prl.config import EnvServerConfig
    from prl.envs import tuning, worker
    from prl.envs.seats import resolve_seats

    env = {"taskset": {"id": "reverse-text"}}
    config = EnvServerConfig(env=env, name="benchmark", address_file=Path("/nonexistent"))
    if variant == "plain":
        sys.path.append(str(worker.BUNDLED))
        asyncio.run(EnvServer(resolve_seats(env, serve=config.serve, timeout=60.0), address=address).run())
        return
    if variant != "tuned":
        plain: Callable[..., None] = lambda *args: None  # noqa: E731 - stands for the tuning that is left out
        plain.__name__ = variant
        vars(tuning)[variant] = plain
    asyncio.run(worker.load(config, address).run())


async def measure(
    address: str, *, port: int, pid: int, tokenizer: Path, episodes: int, concurrency: int
) -> tuple[float, float]:
    """(milliseconds of the worker's CPU per episode, episodes per second)."""
    from prl.orchestrator.env_client import EnvClient

    pack = msgspec.msgpack.encode
    client = EnvClient("benchmark", address)
    endpoint = {
        "type": "train",
        "base_url": f"http://127.0.0.1:{port}/v1",
        "renderer": {"name": "default"},
        "renderer_model_name": str(tokenizer),
        "api_key_var": "VLLM_API_KEY",
    }
    task = msgspec.Raw(pack({"idx": 0, "prompt": "hello", "answer": "olleh"}))
    room = asyncio.Semaphore(concurrency)

    async def play() -> None:
        async with room:
            record = await client.run(
                task,
                msgspec.Raw(pack(endpoint)),
                "tiny",
                {"temperature": 1.0, "max_completion_tokens": 16},
                timeout=300,
            )
            if not record["ok"]:
                raise RuntimeError(f"episode failed: {record['traces'][0]['errors']}")

    await asyncio.gather(*(play() for _ in range(WARM_UP)))
    process = psutil.Process(pid)
    cpu, began = sum(process.cpu_times()[:2]), time.monotonic()
    await asyncio.gather(*(play() for _ in range(episodes)))
    seconds, cpu = time.monotonic() - began, sum(process.cpu_times()[:2]) - cpu
    client.close()
    return 1e3 * cpu / episodes, episodes / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU and throughput of environment episodes")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--each", action="store_true", help="also leave out one tuning at a time")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(*args.serve)
        return
    from prl.envs.tuning import TUNINGS
    from prl.trainer.tiny import byte_tokenizer

    context = multiprocessing.get_context("spawn")
    ports = context.Queue()
    engine_process = context.Process(target=engine, args=(ports,), daemon=True)
    engine_process.start()
    port = ports.get()
    print(f"{'variant':40} {'ms CPU/episode':>15} {'episodes/s':>11}")
    with tempfile.TemporaryDirectory() as directory:
        byte_tokenizer(512).save_pretrained(directory)
        for number, variant in enumerate(["plain", "tuned", *(TUNINGS if args.each else ())]):
            address = f"ipc://{directory}/worker{number}"
            worker = subprocess.Popen([sys.executable, __file__, "--serve", address, variant])
            try:
                cost, rate = asyncio.run(
                    measure(
                        address,
                        port=port,
                        pid=worker.pid,
                        tokenizer=Path(directory),
                        episodes=args.episodes,
                        concurrency=args.concurrency,
                    )
                )
            finally:
                worker.kill()
                worker.wait()
            name = variant if variant in {"plain", "tuned"} else f"without {variant}"
            print(f"{name:40} {cost:15.2f} {rate:11.1f}", flush=True)
    engine_process.terminate()


if __name__ == "__main__":
    main()

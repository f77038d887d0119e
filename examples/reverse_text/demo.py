"""The whole road on one machine: make a tiny model, warm it up by supervised fine-tuning, train it by
asynchronous RL.

    make demo          (or, in the environment: python examples/reverse_text/demo.py)

Every stage is a command that you can type yourself; each is printed before it runs. What stands at the end are three
words the model was asked to reverse before and after, the verdict of the run and where its directory is.
"""

import argparse
import contextlib
import json
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from prl.watch import status_of

HERE = Path(__file__).parent
WORDS = ("planet", "orchard", "breakfast")
console = Console(highlight=False)


def command(module: str, *args: str | Path) -> list[str]:
    return [sys.executable, "-m", f"prl.cli.{module}", *map(str, args)]


def run(title: str, argv: list[str]) -> None:
    """Run one stage in the foreground; its failure ends the demo with its exit status."""
    console.rule(title, align="left")
    console.print(f"$ {shlex.join(argv)}", style="dim", soft_wrap=True)
    process = subprocess.Popen(argv)
    try:
        status = process.wait()
    except KeyboardInterrupt:  # the stage got Ctrl-C as well and stops its processes; wait until it has
        status = process.wait()
    if status:
        console.print(f"{title}: ended with exit status {status}", style="bold red")
        raise SystemExit(status)


@contextlib.contextmanager
def served(model: Path) -> Iterator[str]:
    """An inference server for ``model`` on a free port; yields its address."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        ports = first.getsockname()[1], second.getsockname()[1]
    argv = command("inference", "--model.name", model, "--server.port", str(ports[0]), "--backend-port", str(ports[1]))
    process = subprocess.Popen([*argv, "--engine.max-model-len", "64"], stdout=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{ports[0]}"
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/health", timeout=1)
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the inference server for {model} did not start")
            time.sleep(0.05)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def answers(model: Path) -> list[str]:
    """What ``model`` says to each word, greedily."""
    with served(model) as address:
        texts = []
        for word in WORDS:
            body = {"model": str(model), "messages": [{"role": "user", "content": word}], "temperature": 0}
            request = urllib.request.Request(
                f"{address}/v1/chat/completions",
                json.dumps({**body, "max_tokens": 16}).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as reply:
                texts.append(json.load(reply)["choices"][0]["message"]["content"])
        return texts


def result_of(run_dir: Path) -> Path:
    """The newest ``weights/step_N`` of a finished run."""
    return max((run_dir / "weights").glob("step_*"), key=lambda path: int(path.name.removeprefix("step_")))


def samples(before: Path, after: Path) -> Table:
    table = Table("word", "reversed", "before RL", "after RL", box=None, pad_edge=False)
    for word, old, new in zip(WORDS, answers(before), answers(after), strict=True):
        table.add_row(word, word[::-1], repr(old), f"[{'green' if new == word[::-1] else 'yellow'}]{new!r}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-dir", type=Path, default=Path("outputs"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sft-steps", type=int, default=250)
    parser.add_argument("--rl-steps", type=int, default=100)
    args = parser.parse_args()
    started = time.monotonic()
    out: Path = args.output_dir
    tag = secrets.token_hex(4)
    warm, trained = out / f"reverse-text-sft--{tag}", out / f"reverse-text-rl--{tag}"
    start = out / "reverse-text" / tag

    run(
        "1 of 3: make a model and conversations",
        [sys.executable, str(HERE / "prepare.py"), str(start), "--seed", str(args.seed)],
    )
    sft = command("sft", "@", HERE / "sft.toml", "--output-dir", out, "--run.name", warm.name)
    sft += ["--model.name", f"{start}/base", "--data.path", f"{start}/sft.jsonl", "--max-steps", str(args.sft_steps)]
    run("2 of 3: supervised warm-up", [*sft, "--seed", str(args.seed)])
    rl = command("rl", "@", HERE / "rl.toml", "--output-dir", out, "--run.name", trained.name)
    rl += ["--model.name", str(result_of(warm)), "--max-steps", str(args.rl_steps)]
    rl += ["--orchestrator.train.seed", str(args.seed), "--trainer.seed", str(args.seed)]
    run("3 of 3: reinforcement learning", rl)

    verdict = status_of(trained)
    console.rule("What it learned", align="left")
    console.print(samples(result_of(warm), result_of(trained)))
    console.print(f"\nverdict        {verdict.health}: {verdict.phase}, step {verdict.step} of {verdict.max_steps}")
    console.print(f"run directory  {trained}", soft_wrap=True)
    console.print(f"look again     {Path(sys.executable).parent / 'prl'} status {trained}", soft_wrap=True)
    console.print(f"time           {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()

"""The logs of an attempt, one method an event, in the words that the contract fixes; and log files of any size."""

import datetime as dt
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from prl.rundir.logs.console import DATE_LINE
from prl.synth.console import Console, clock_line
from prl.synth.course import Attempt, Step
from prl.synth.episodes import Episode
from prl.synth.shape import START, RunShape
from prl.synth.streams import open_rows
from prl.synth.traces import ERROR, LOST, failure_types
from prl.text.human import format_duration, format_percent

RENDEZVOUS = "none_made0up1"
FIRST_JOB = 8122
NEEDLE = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE"
"""Stands on one line in so many of :func:`log_file`'s."""
NEEDLE_EVERY = 100_000

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity of 79.1 GiB"
)
_TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/opt/prl/trainer/train.py", line 88, in run',
    "    loss.backward()",
    '  File "/opt/prl/trainer/loss.py", line 41, in backward',
    "    torch.autograd.backward(self.total)",
    OUT_OF_MEMORY,
)


class AttemptLogs:
    """The consoles of one attempt."""

    def __init__(self, shape: RunShape, attempt: Attempt, root: Path) -> None:
        directory = root / "logs"
        if shape.layout == "C":
            directory /= f"attempt_{attempt.number}"
        self.shape = shape
        self.attempt = attempt
        self.directory = directory
        prime = shape.writer == "prime-rl"
        names = {"rl": ("trainer", "orchestrator", "inference"), "sft": ("trainer",), "eval": ("eval", "inference")}
        self.consoles = {
            name: Console(
                directory / f"{name}.log",
                coloured=prime,
                prefix="[trainer0]:" if prime and name == "trainer" else "",
            )
            for name in names[shape.kind]
        }
        # What prime-rl's launcher says goes where the cluster puts the output of its job.
        job = root / ("" if shape.layout == "A" else "launcher/logs") / f"job_{FIRST_JOB + attempt.number}.log"
        self.consoles["launcher"] = Console(job if prime else directory / "launcher.log", coloured=prime)
        if shape.kind != "sft":
            split = "eval" if shape.kind == "eval" else "train"
            for environment in shape.environments:
                component = f"envs/{split}/{environment.name}"
                self.consoles[component] = Console(directory / f"{component}.log", coloured=prime)
        self.ranks = [
            Console(directory / "trainer" / "torchrun" / RENDEZVOUS / "attempt_0" / str(rank) / "stderr.log")
            for rank in range(shape.ranks if shape.ranks > 1 and shape.kind != "eval" else 0)
        ]
        self.nodes = [
            Console(directory / "inference" / f"node_{node}.log")
            for node in range(shape.inference_nodes if shape.inference_nodes > 1 and shape.kind == "rl" else 0)
        ]

    def say(self, component: str, time: float, level: str, message: str, *more: str) -> None:
        """A line of a component, if the run has it."""
        if component in self.consoles:
            self.consoles[component].line(time, level, message, more)

    # ---- events

    def start_up(self) -> None:
        at, shape, attempt = self.attempt.start, self.shape, self.attempt
        resumed = attempt.resumed_from
        self.say("launcher", at, "INFO", f"Run {shape.run_name}, attempt {attempt.number}")
        what = f"Resuming from step {resumed}" if resumed is not None else f"Training from scratch with {shape.model}"
        self.say("launcher", at, "INFO", what)
        if "inference" in self.consoles:
            self.say("inference", at + 1, "INFO", "Starting the engine on 127.0.0.1:8000")
            self.consoles["inference"].vllm(at + 2, "api_server.py:1", f"vLLM API server, model {shape.model}")
            self.consoles["inference"].bar("Loading safetensors checkpoint shards", 4)
            self.say("inference", at + 12, "SUCCESS", "Serving on 127.0.0.1:8000")
        for number, component in enumerate(self._env_components()):
            address = f"tcp://127.0.0.1:{40001 + number}"
            message = f"EnvServerPool up: address={address} workers=1/4 multiplex=128 elastic=True"
            self.say(component, at + 3 + number, "INFO", message)
        self.say("orchestrator", at + 5, "INFO", "Starting orchestrator (algorithm: grpo)")
        self.say(
            "orchestrator",
            at + 8,
            "INFO",
            "Waiting for inference server at http://127.0.0.1:8000 to start up (3s elapsed)",
        )
        self.say("orchestrator", at + 13, "SUCCESS", "Inference pool ready (1 engines) after 8.0s")
        self.say("trainer", at + 9, "INFO", f"Starting trainer (rank 0 of {shape.ranks}, device cuda:0)")
        if resumed is not None:
            self.say("orchestrator", at + 14, "INFO", f"Resuming orchestrator from step {resumed}")
            self.say("trainer", at + 14, "INFO", f"Resuming training from checkpoint step {resumed}")
        self.say("trainer", at + 20, "INFO", f"Starting training loop (max_steps={shape.limit})")
        if shape.kind == "rl":
            self.say(
                "trainer", at + 21, "INFO", f"Broadcasting startup policy weights (v{attempt.first - 1}) to broadcasts"
            )
        self.say("orchestrator", at + 24, "SUCCESS", "Train environments ready after 9.0s")
        self.say("orchestrator", at + 29, "INFO", f"Starting orchestrator loop (max_steps={shape.limit})")
        self.say("eval", at + 29, "INFO", f"Starting evals in {', '.join(e.name for e in shape.environments)}")

    def train_step(self, step: Step, values: Mapping[str, float], dropped: Sequence[str]) -> None:
        """The trainer's lines of a step. ``values``: all its rows together."""
        fields = [
            f"Step {step.number} | {format_duration(values['time/step']):>7}",
            f"Loss {values['loss/mean']:.4f}",
            f"Entropy {values.get('entropy/all/mean', math.nan):.4f}",
            *([f"Mismatch KL {values['mismatch_kl/all/mean']:.4f}"] if "mismatch_kl/all/mean" in values else []),
            f"Grad. Norm {values['optim/grad_norm']:.4f}",
            f"LR {values['optim/lr']:.2e}",
            f"Throughput {values['perf/throughput']:.0f} tokens/s",
            f"MFU {values['perf/mfu']:.1f}%",
            f"Peak Mem. {values['perf/peak_memory']:.1f} GiB",
        ]
        if dropped:
            names = ", ".join(dropped)
            what = f"Dropping {len(dropped)} non-finite value(s) from metrics.jsonl: {names}"
            self.say("trainer", step.trained - 0.2, "WARNING", what)
        self.say("trainer", step.trained, "SUCCESS", " | ".join(fields))
        waited = values["time/wait_for_batch"]
        if waited >= values["time/step"] - waited:
            active = format_duration(values["time/step"] - waited)
            what = f"Trainer waited {format_duration(waited)} for a batch, at least as long as its {active} active"
            self.say("trainer", step.trained, "WARNING", what)
        if step.number % self.shape.checkpoint_interval == 0:
            self.say("trainer", step.trained + 0.5, "INFO", f"Saving checkpoint at step {step.number}")
        for console in self.ranks:
            console.last = step.trained
            console.raw(f"step {step.number}: grad norm {values['optim/grad_norm']:.6f}")

    def orchestrate(self, step: Step, episodes: Sequence[Episode], shipped: Sequence[Episode]) -> None:
        """The orchestrator's lines of a step, and those of the engines meanwhile."""
        shape = self.shape
        middle = step.begin + step.seconds / 2
        lines = [(episode.arrival, "WARNING", text) for episode in episodes if (text := self._failure(episode))]
        lines.append((middle, "INFO", self._pipeline(episodes)))
        for time, level, text in sorted(lines):
            self.say("orchestrator", time, level, text)
        head = f"Step {step.number} | {format_duration(step.seconds):>7}"
        trainable = f"Trainable {len(shipped)}/{len(episodes)} ({format_percent(len(shipped) / max(len(episodes), 1))})"
        more = []
        if len(shape.environments) > 1:
            for index, environment in enumerate(shape.environments):
                mine = [episode for episode in shipped if episode.environment == index]
                ratio = format_percent(len(mine) / max(len(shipped), 1))
                more.append(f"\t\t ╰─ {environment.name} | Ratio {ratio} | {_facts(step, mine)}")
        message = " | ".join((head, _reward(shipped), trainable, _facts(step, shipped).partition(" | ")[2]))
        self.say("orchestrator", step.shipped, "SUCCESS", message, *more)
        if step.number % shape.checkpoint_interval == 0:
            self.say("orchestrator", step.shipped, "INFO", f"Saving checkpoint at step {step.number}")
        self._engines(middle, len(episodes))

    def evaluate(self, at: float, version: int, values: Mapping[str, float]) -> None:
        """The lines of an evaluation that ended at ``at``."""
        component = "eval" if self.shape.kind == "eval" else "orchestrator"
        for environment in self.shape.environments:
            head = f"eval/{environment.name}/all"
            reward = values.get(f"{head}/{environment.agents[0]}/reward/mean", 0.0)
            turns, errors = values.get(f"{head}/num_turns/mean", 0.0), values.get(f"{head}/has_error/mean", 0.0)
            head = f"Evaluated {environment.name} | Policy v{version} | {'1m 5s':>7}"
            rates = f"Branches 1.0 | Error {format_percent(errors)} | Truncation 0.0%"
            what = f"{head} | Reward {reward:.4f} | Turns {turns:.1f} | {rates}"
            self.say(component, at, "SUCCESS", what)
        for name in self._env_components():
            self.consoles[name].bar("Rollouts", self.shape.eval_examples)

    def finish(self, at: float) -> None:
        self.say("orchestrator", at, "SUCCESS", "Orchestrator finished")
        self.say("trainer", at + 0.5, "INFO", "Peak memory: 41.0 GiB")
        self.say(
            "trainer",
            at + 0.5,
            "SUCCESS",
            "SFT trainer finished" if self.shape.kind == "sft" else "RL trainer finished",
        )
        self.say("eval", at, "SUCCESS", "Evaluation finished")
        self.say("launcher", at + 1, "SUCCESS", "Training finished!")
        self._servers_end(at + 1)

    def crash(self, at: float) -> None:
        """The component that does the work runs out of memory, and the launcher ends the rest."""
        victim = "eval" if self.shape.kind == "eval" else "trainer"
        self.say(victim, at, "ERROR", f"Fatal error in {'run_evals' if victim == 'eval' else 'train'}", *_TRACEBACK)
        if self.ranks:
            self.ranks[-1].raw(*_TRACEBACK)
        self.say("launcher", at + 1, "ERROR", f"Error: {victim.capitalize()} failed with exit code 1: {OUT_OF_MEMORY}")
        self.say("launcher", at + 1, "ERROR", "Terminating all processes")
        self._servers_end(at + 2)

    def stop(self, at: float) -> None:
        """Somebody ends the run."""
        self.say("launcher", at, "WARNING", "Received SIGTERM, terminating all processes (again: kill them at once)")
        self.say("orchestrator", at + 0.2, "WARNING", "Orchestrator was interrupted by SIGTERM, shutting down")
        self._servers_end(at + 1)

    def stall(self, at: float, seconds: float, step: int) -> None:
        """Nothing advances any more: the trainer waits for a receiver that waits for it. Others fall silent."""
        if self.shape.kind != "rl":
            return
        for waited in range(60, int(seconds), 600):
            what = f"Still waiting for the broadcast receiver after {waited}s"
            self.say("trainer", at + waited, "INFO", what)
            hold = f"Holding batch {step + 2} until inference applies policy v{step} (currently v{step - 1})"
            self.say("orchestrator", at + waited, "INFO", hold)

    def flush(self) -> None:
        for console in (*self.consoles.values(), *self.ranks, *self.nodes):
            console.flush()

    def close(self) -> None:
        for console in (*self.consoles.values(), *self.ranks, *self.nodes):
            console.close()
        if self.nodes:
            link = self.directory / "inference.log"
            link.unlink()
            link.symlink_to("inference/node_0.log")

    # ---- their parts

    def _env_components(self) -> list[str]:
        return [name for name in self.consoles if name.startswith("envs/")]

    def _pipeline(self, episodes: Sequence[Episode]) -> str:
        """How full the batch is half-way through the step."""
        total = len(episodes)
        names = Counter(self.shape.environments[episode.environment].name for episode in episodes)
        counts = ", ".join(f"{env}={count}" for env, count in names.items())
        share = format_percent(total // 2 / max(total, 1))
        flight = f"{total} inflight episodes (train={total}, eval=0 | {counts})"
        return f"Train batch {total // 2}/{total} ({share}) ({counts}); {flight}"

    def _failure(self, episode: Episode) -> str | None:
        """What the orchestrator says about an episode that failed."""
        env = self.shape.environments[episode.environment].name
        if episode.outcome == LOST:
            return f"Environment request failed in group {episode.group} ({env}): EnvWorkerDied('killed by signal 9')"
        if episode.outcome != ERROR:
            return None
        kind, message = failure_types()[episode.drafts[0].failure]
        first = message.partition("\n")[0]
        return f"Trace failed in group {episode.group} ({env}) — {kind}: {first}"

    def _engines(self, at: float, running: int) -> None:
        for number, console in enumerate(self.nodes or [self.consoles["inference"]]):
            rates = f"Avg prompt throughput: {410.5 + number:.1f} tokens/s"
            rates += f", Avg generation throughput: 1203.{running % 10} tokens/s"
            load = f"Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 41.7%, Prefix cache hit rate: 60.2%"
            console.vllm(at, "loggers.py:1", f"Engine 00{number}: {rates}, {load}")
            console.raw('INFO:     127.0.0.1:53712 - "POST /inference/v1/generate HTTP/1.1" 200 OK')

    def _servers_end(self, at: float) -> None:
        self.say("inference", at, "INFO", "Stopping on SIGTERM")
        for number, component in enumerate(self._env_components()):
            self.say(component, at, "INFO", f"EnvServerPool down: address=tcp://127.0.0.1:{40001 + number}")


def log_file(path: Path, size: int, *, start: float = START, seed: int = 0) -> int:
    """Write a log of about ``size`` bytes; returns how many lines hold :data:`NEEDLE`.

    Two hundred lines a second of clock, all of them different from their neighbours, with date lines at midnights.
    """
    rng = random.Random(seed)
    blocks = [_log_block(rng) for _ in range(64)]
    written = second = needles = lines = 0
    date = None
    with open_rows(path) as file:
        while written < size:
            when = dt.datetime.fromtimestamp(start + second, dt.UTC)
            if date != when.date():
                date = when.date()
                written += file.write(f"{DATE_LINE.format(date=f'{when:%Y-%m-%d %z}')}\n".encode())
            block = blocks[second * 31 % len(blocks)].replace(b"00:00:00", f"{when:%H:%M:%S}".encode())
            written += file.write(block)
            lines += block.count(b"\n") if second == 0 else 200
            if lines // NEEDLE_EVERY > needles:
                needles += 1
                written += file.write(
                    clock_line(start + second, "ERROR", f"[rank{needles % 8}] {NEEDLE}, NumelIn={needles})")
                )
            second += 1
    return needles


def _log_block(rng: random.Random) -> bytes:
    lines = []
    for _ in range(200):
        number = rng.randrange(10**6)
        kind = rng.choice(("generate", "generate", "generate", "rollout", "warning"))
        if kind == "generate":
            lines.append(
                clock_line(0.0, "INFO", f"127.0.0.1:{number % 60000} POST /inference/v1/generate 200 {number}us")
            )
        elif kind == "rollout":
            lines.append(
                clock_line(0.0, "INFO", f"rollout done: id={number:032x} task=w-{number % 500} reward=0.{number:06d}")
            )
        else:
            lines.append(
                clock_line(0.0, "WARNING", f"request {number:08x} waited {number % 900}ms for a worker — naïve café")
            )
    return b"".join(lines)


def _reward(episodes: Sequence[Episode]) -> str:
    rewards = [episode.index["reward"] or 0.0 for episode in episodes]
    return f"Reward {sum(rewards) / max(len(rewards), 1):.4f}"


def _facts(step: Step, episodes: Sequence[Episode]) -> str:
    count = max(len(episodes), 1)
    turns = sum(episode.index["turns"] for episode in episodes) / count
    branches = sum(episode.index["branches"] for episode in episodes) / count
    truncated = format_percent(sum(episode.index["truncated"] for episode in episodes) / count)
    behind = min(step.number - 1, 2)
    rates = f"Error 0.0% | Cancelled 0.0% | Truncation {truncated} | Timeout 0.0%"
    return f"{_reward(episodes)} | Turns {turns:.1f} | Branches {branches:.1f} | Max Off-Policy {behind} | {rates}"

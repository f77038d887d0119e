"""How far a run got and what it waits for, read from its run directory as anybody else could.

The launcher has no channel of its own to the components: what it shows is what the files say, so a run that looks well
here looks well to every other reader too.
"""

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prl.launch.events import Event, LogLine, Step
from prl.rundir.broadcasts import list_broadcasts
from prl.rundir.following import Follower
from prl.rundir.jsonl import Tail
from prl.rundir.layout import RunLayout

_READ_BYTES = 1024 * 1024
_TRAINER_PREFIX = re.compile(r"^\[trainer\d+\]: ?")
_HELD = re.compile(r"Holding batch (\d+) until .* policy v(\d+)")
_FILLING = re.compile(r"Train batch (\d+)/(\d+) ")
_REWARD_BEGIN, _REWARD_END = "train/agg/effective/", "/reward/mean"


@dataclass
class Progress:
    """Reads a run directory again and again; what is new comes out as events."""

    layout: RunLayout
    logs: Path
    """Log directory of the attempt."""
    metrics: Path | None
    """None: the run keeps no metrics."""
    kind: str
    max_steps: int | None
    resume_step: int | None
    address_files: Sequence[Path] = ()
    """By which environment servers publish that they are up."""
    begun: float = field(default_factory=time.time)
    step: int | None = None
    """Last finished trainer step of this attempt."""

    def __post_init__(self) -> None:
        self._trainer = Follower(self.logs / "trainer.log")
        self._orchestrator = Follower(self.logs / "orchestrator.log")
        self._rows = Tail(self.metrics) if self.metrics else None
        self._rewards: dict[int, float] = {}
        self._losses: dict[int, float] = {}
        self._said: set[str] = set()
        self._shipped = self.resume_step or 0
        self._filling: str | None = None
        self._held: str | None = None
        self._waiting = ""
        self._since = time.monotonic()

    def poll(self) -> list[Event]:
        """Events since the last poll, in the order of the files."""
        events: list[Event] = []
        for line in _lines(self._trainer):
            text = _TRAINER_PREFIX.sub("", line)
            self._note(text)
            events.append(LogLine(text))
        for line in _lines(self._orchestrator):
            self._note(line)
        before = self.step
        self.step = self._finished_step()
        if self._rows is None:
            events.extend(Step(step, self.max_steps) for step in _between(before or self.resume_step, self.step))
        else:
            events.extend(self._steps(self._rows))
        return events

    def waiting_for(self) -> tuple[str, float]:
        """What the run waits for, in words, and for how many seconds the words have been the same."""
        now = self._sft_stage() if self.kind == "sft" else self._rl_stage()
        if now != self._waiting:
            self._waiting, self._since = now, time.monotonic()
        return now, time.monotonic() - self._since

    def _rl_stage(self) -> str:
        unready = self._unready()
        if unready:
            return ", ".join(unready[:-1]) + (" and " if len(unready) > 1 else "") + unready[-1]
        if self.step is not None and self.max_steps is not None and self.step >= self.max_steps:
            return "the last checkpoint and the end of the components"
        trained = self.step if self.step is not None else self.resume_step or 0
        if self._shipped > trained:
            return f"the trainer to finish step {trained + 1}" + (f" ({self._held})" if self._held else "")
        return f"batch {self._shipped + 1}" + (f" ({self._filling})" if self._filling else "")

    def _unready(self) -> list[str]:
        """What is missing before batches can be made. Empty once a step was shipped, whatever the logs say."""
        if self._shipped > (self.resume_step or 0) or self.step is not None:
            return []
        missing = []
        if not all(path.exists() for path in self.address_files):
            missing.append("the environment servers")
        if "trainer" not in self._said:
            missing.append("the trainer to load the model")
        elif not self._broadcast_done():
            missing.append("the first weights to reach the engine")
        if "orchestrator" not in self._said:
            missing.append("the orchestrator to find everything ready")
        return missing

    def _sft_stage(self) -> str:
        if self.step is None:
            return "step 1" if "trainer" in self._said else "the trainer to load the model"
        done = self.max_steps is not None and self.step >= self.max_steps
        return "the last checkpoint and weights" if done else f"step {self.step + 1}"

    def _note(self, line: str) -> None:
        """Remember what a console line of fixed words says."""
        if "Starting training loop (" in line:
            self._said.add("trainer")
        elif "Starting orchestrator loop (" in line:
            self._said.add("orchestrator")
        elif held := _HELD.search(line):
            self._held = f"batch {held[1]} is held until policy v{held[2]}"
        elif filling := _FILLING.search(line):
            self._filling, self._held = f"{filling[1]} of {filling[2]} traces", None

    def _steps(self, rows: Tail) -> Iterator[Step]:
        for line in rows.poll():
            row = line.value
            step = row.get("step")
            # Rows of earlier attempts stand in the same file.
            if not isinstance(step, int) or not _number(row.get("time")) or row["time"] < self.begun:
                continue
            if row.get("producer") == "orch":
                self._shipped = max(self._shipped, step)
                self._filling = None
                reward = _effective_reward(row)
                if reward is not None:
                    self._rewards[step] = reward
                continue
            if _number(row.get("loss/mean")):
                self._losses[step] = float(row["loss/mean"])
            if _number(row.get("time/step")):
                self.step = max(self.step or 0, step)
                yield Step(
                    step,
                    self.max_steps,
                    reward=self._rewards.pop(step, None),
                    loss=self._losses.pop(step, None),
                    seconds=float(row["time/step"]),
                )

    def _finished_step(self) -> int | None:
        """The trainer's own count, once it is beyond the step resumed from."""
        try:
            step = int(self.layout.trainer_step.read_text())
        except (OSError, ValueError):
            return self.step
        return step if step > (self.resume_step or 0) else None

    def _broadcast_done(self) -> bool:
        return any(state.finished is not None for state in list_broadcasts(self.layout.broadcasts))


def _lines(log: Follower) -> list[str]:
    block = log.poll(_READ_BYTES)
    return [line.decode(errors="replace") for line in block.data.split(b"\n")[:-1]] if block else []


def _effective_reward(row: dict[str, object]) -> float | None:
    """Mean effective reward of a row: of the agent named ``agent``, else of the first that has one."""
    found = {
        key.removeprefix(_REWARD_BEGIN).removesuffix(_REWARD_END): float(value)
        for key, value in row.items()
        if key.startswith(_REWARD_BEGIN) and key.endswith(_REWARD_END) and isinstance(value, (int, float))
    }
    return found.get("agent", found[min(found)] if found else None)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _between(before: int | None, now: int | None) -> range:
    return range((before or 0) + 1, now + 1) if now is not None else range(0)

"""How far a run got, from its directory alone."""

import json
import time
from pathlib import Path
from typing import Any

from prl.launch.events import LogLine, Step
from prl.launch.progress import Progress
from prl.rundir.broadcasts import FINISHED
from prl.rundir.layout import RunLayout


class Run:
    """A run directory that grows as a test says."""

    def __init__(self, root: Path, *, monitor: bool = True, kind: str = "rl", resume_step: int | None = None) -> None:
        self.layout = RunLayout(root)
        self.logs = self.layout.attempt_logs(1)
        self.logs.mkdir(parents=True)
        self.layout.file_monitor.mkdir(parents=True)
        self.address = root / "word-game.address"
        self.progress = Progress(
            self.layout,
            self.logs,
            self.layout.metrics if monitor else None,
            kind,
            max_steps=3,
            resume_step=resume_step,
            address_files=[self.address],
        )

    def say(self, component: str, line: str) -> None:
        with (self.logs / f"{component}.log").open("a") as file:
            file.write(line + "\n")

    def row(self, producer: str, step: int | None, **values: Any) -> None:
        with self.layout.metrics.open("a") as file:
            file.write(json.dumps({"step": step, "time": time.time() + 1, "producer": producer, **values}) + "\n")

    def steps(self) -> list[Step]:
        return [event for event in self.progress.poll() if isinstance(event, Step)]

    def waiting(self) -> str:
        self.progress.poll()
        return self.progress.waiting_for()[0]


def test_the_start_names_what_is_missing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.waiting() == (
        "the environment servers, the trainer to load the model and the orchestrator to find everything ready"
    )
    run.address.touch()
    run.say("trainer", "[trainer0]:10:00:00    INFO Starting training loop (max_steps=3)")
    assert run.waiting() == ("the first weights to reach the engine and the orchestrator to find everything ready")
    run.layout.broadcast(0).mkdir(parents=True)
    (run.layout.broadcast(0) / FINISHED).touch()
    run.say("orchestrator", "10:00:01    INFO Starting orchestrator loop (max_steps=3)")
    assert run.waiting() == "batch 1"
    run.say("orchestrator", "10:00:02    INFO Train batch 3/8 (37.5%); 8 inflight episodes (train=8, eval=0)")
    assert run.waiting() == "batch 1 (3 of 8 traces)"


def test_a_step_has_the_reward_of_its_batch(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.row("orch", 1, **{"train/agg/effective/agent/reward/mean": 0.25, "train/agg/effective/judge/reward/mean": 9.0})
    run.row("orch", None, **{"dispatcher/inflight/train": 4.0})
    assert run.steps() == []
    assert run.waiting() == "the trainer to finish step 1"
    run.say("orchestrator", "10:00:03    INFO Holding batch 3 until inference applies policy v1 (currently v0)")
    assert run.waiting() == "the trainer to finish step 1 (batch 3 is held until policy v1)"
    run.row("trainer", 1, **{"loss/mean": 0.5})
    run.row("trainer", 1, **{"time/step": 2.0})
    run.layout.trainer_step.write_text("1\n")
    assert run.steps() == [Step(1, 3, reward=0.25, loss=0.5, seconds=2.0)]
    assert run.progress.step == 1
    assert run.waiting() == "batch 2"
    run.layout.trainer_step.write_text("3\n")
    assert run.waiting() == "the last checkpoint and the end of the components"


def test_rows_of_earlier_attempts_are_not_news(tmp_path: Path) -> None:
    run = Run(tmp_path, resume_step=1)
    with run.layout.metrics.open("a") as file:
        file.write(json.dumps({"step": 2, "time": time.time() - 60, "producer": "trainer", "time/step": 1.0}) + "\n")
    run.layout.trainer_step.write_text("1\n")  # as the launcher leaves it
    assert run.steps() == []
    assert run.progress.step is None


def test_without_metrics_the_trainers_own_count_tells(tmp_path: Path) -> None:
    run = Run(tmp_path, monitor=False)
    assert run.steps() == []
    run.layout.trainer_step.write_text("2\n")
    assert run.steps() == [Step(1, 3), Step(2, 3)]
    assert run.steps() == []


def test_the_trainers_lines_come_without_torchruns_prefix(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.say("trainer", "[trainer0]:10:00:00    INFO one")
    with (run.logs / "trainer.log").open("ab") as file:
        file.write(b"[trainer0]:two")  # not complete yet
    assert run.progress.poll() == [LogLine("10:00:00    INFO one")]
    run.say("trainer", "!")
    assert run.progress.poll() == [LogLine("two!")]


def test_supervised_runs_wait_for_their_steps(tmp_path: Path) -> None:
    run = Run(tmp_path, kind="sft")
    assert run.waiting() == "the trainer to load the model"
    run.say("trainer", "10:00:00    INFO Starting training loop (max_steps=3)")
    assert run.waiting() == "step 1"
    run.row("trainer", 1, **{"loss/mean": 2.0})
    run.row("trainer", 1, **{"time/step": 0.5})
    assert run.steps() == [Step(1, 3, loss=2.0, seconds=0.5)]
    assert run.waiting() == "step 2"

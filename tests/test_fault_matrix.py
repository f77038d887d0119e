"""Every component killed at every stage of a run (``make test-faults``): it ends, names the component, leaves nothing.

The suite's ``test_run_faults.py`` kills each component once, in the middle of a run; this is the long form.
"""

import contextlib
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from prl.rundir.checkpoints import complete_steps
from prl.rundir.status import FAILED, read_status
from prl.trainer.tiny import make_tiny_model
from real_run import Run, configuration, running, wait_for
from test_run_faults import check_gone, check_readable

pytestmark = pytest.mark.faults

COMPONENTS = {
    "inference": "Inference",
    "train env server reverse-text": "Train env server reverse-text",
    "orchestrator": "Orchestrator",
    "trainer": "Trainer",
}
STAGES: dict[str, Callable[[Run], object]] = {
    "just started": lambda run: wait_for(lambda: (s := run.status()) and len(s.processes) == 4, "four processes"),
    "loading": lambda run: wait_for(lambda: run.layout.broadcast(0).exists(), "the first offer of weights"),
    "training": lambda run: run.wait_for_step(2),
    "saving": lambda run: wait_for(lambda: list(run.layout.checkpoints.glob("step_*")), "a checkpoint"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", hidden_size=32, num_layers=1)


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_component_ends_the_run(tmp_path: Path, model: Path, name: str, stage: str) -> None:
    with running(configuration(tmp_path, model, max_steps=1000)) as run:
        STAGES[stage](run)
        run.look()
        run.find(name).send_signal(signal.SIGKILL)
        assert run.end() == 1
        assert f"{COMPONENTS[name]} failed with exit code -9" in run.text
        check_gone(run)
        status = read_status(run.layout.status_json)
        assert status
        assert status.phase == FAILED
        if stage in ("training", "saving"):
            check_readable(run)


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_launcher_leaves_no_process(tmp_path: Path, model: Path, stage: str) -> None:
    with running(configuration(tmp_path, model, max_steps=1000)) as run:
        STAGES[stage](run)
        run.look()
        run.process.kill()
        run.process.wait()
        check_gone(run)
        wait_for(lambda: (s := read_status(run.layout.status_json)) and s.phase == FAILED, "the corrected status", 30)


def test_a_run_survives_the_deaths_of_its_workers(tmp_path: Path, model: Path) -> None:
    """Five deaths at random moments; the run finishes and says how many workers it lost."""
    dice = random.Random(7)
    with running(configuration(tmp_path, model, max_steps=60, ckpt=None)) as run:
        run.wait_for_step(1)
        for _ in range(5):
            time.sleep(dice.uniform(0.0, 2.0))  # the moment is what is drawn: nothing is waited for
            run.look()
            workers = [p for p in run.seen if p.is_running() and "EnvWorker" in " ".join(p.cmdline())]
            for worker in workers:
                with contextlib.suppress(psutil.Error):
                    worker.kill()
            if run.process.poll() is not None:
                break
            step = run.step()
            run.wait_for_step(min(step + 2, 60))
        assert run.end() == 0, run.text[-3000:]
        check_gone(run)
        check_readable(run)


def test_resuming_after_a_death_at_a_random_moment(tmp_path: Path, model: Path) -> None:
    """Whatever was half written, the newest checkpoint that is there is whole and the run goes on from it."""
    dice = random.Random(11)
    config = configuration(tmp_path, model, max_steps=1000, ckpt={"interval": 1, "keep_last": 2})
    newest = 0
    for attempt in range(4):
        with running(config, *(["--resume"] if newest else [])) as run:
            run.wait_for_step(newest + 2)
            time.sleep(dice.uniform(0.0, 0.5))  # the moment is what is drawn: nothing is waited for
            victim = run.process if attempt % 2 else run.find("trainer")
            victim.send_signal(signal.SIGKILL)
            run.end()
            check_gone(run)
        steps = complete_steps(run.layout.checkpoints)
        assert steps
        assert steps[-1] > newest
        newest = steps[-1]

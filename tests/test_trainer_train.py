"""The RL trainer against a made-up orchestrator: what a run of it leaves behind, one rank and two, and resuming."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from prl.config import TrainerConfig
from prl.rundir.broadcasts import list_broadcasts, verify_weights
from prl.rundir.checkpoints import complete_steps
from prl.trainer.checkpoint import ResumeError
from prl.trainer.parallel import World
from prl.trainer.tiny import make_tiny_model
from prl.trainer.train import BatchError, RLTrainer
from prl.transport.batches import MicroBatch
from trainer_peer import RecordingMonitor, micro_batch, orchestrator, padding, trainer_config

torch.set_num_threads(1)
ONE_RANK = World(0, 1, torch.device("cpu"))

# The run contract's regular expressions for these lines.
NUM = r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"
DUR = r"(?:\d+ms|\d+(?:\.\d+)?s|\d+m(?: \d+s)?|\d+h(?: \d+m)?|\d+d(?: \d+h)?)"
STEP_LINE = re.compile(
    rf"^Step (?P<step>\d+) \| +{DUR} \| Loss {NUM} \| Entropy {NUM} \| Mismatch KL {NUM} \| Grad\. Norm {NUM} "
    rf"\| LR {NUM} \| Throughput {NUM} tokens/s \| MFU {NUM}% \| Peak Mem\. {NUM} GiB$"
)
MICRO_LINE = re.compile(rf"^Micro Step \d+/\d+ \| Loss {NUM} \| Entropy {NUM}")
WAIT_LINE = re.compile(rf"^Trainer waited {DUR} for a batch, at least as long as its {DUR} active")


def batch(step: int) -> list[MicroBatch]:
    """Two micro batches of different sizes, of which a second rank gets the second."""
    return [
        micro_batch([9, 12, 5], seed=step),
        micro_batch([30, 4, 4, 8], seed=100 + step, first=3, env="numbers"),
    ]


BATCHES = {step: [batch(step)] for step in (1, 2, 3)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"), hidden_size=16)


def train(config: TrainerConfig, batches: dict[int, list[list[MicroBatch]]]) -> tuple[RecordingMonitor, list[int]]:
    monitor = RecordingMonitor()
    with orchestrator(config, batches) as received:
        RLTrainer(config, ONE_RANK, monitor).run()
    return monitor, received


class Run:
    """Three steps of one rank, a checkpoint after the second and one at the end."""

    def __init__(self, root: Path, model: Path, caplog_handler: logging.Handler) -> None:
        self.config = trainer_config(root, model, max_steps=3, ckpt={"interval": 2})
        logger = logging.getLogger("prl")
        logger.addHandler(caplog_handler)
        logger.setLevel(logging.DEBUG)
        try:
            self.monitor, self.received = train(self.config, BATCHES)
        finally:
            logger.removeHandler(caplog_handler)


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append((record.levelname, record.getMessage()))

    def of(self, level: str) -> list[str]:
        return [message for name, message in self.messages if name == level]


@pytest.fixture(scope="module")
def lines() -> Lines:
    return Lines()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, model: Path, lines: Lines) -> Iterator[Run]:
    yield Run(tmp_path_factory.mktemp("run"), model, lines)


def test_it_says_its_lines_in_the_contracts_words_and_order(run: Run, lines: Lines) -> None:
    said = [message for _, message in lines.messages]
    expected = [
        "Training from scratch",
        "Starting training loop (max_steps=3)",
        "Broadcasting startup policy weights (v0)",
        "Step 1 |",
        "Saving checkpoint at step 2",
        "Step 2 |",
        "Step 3 |",
        "Saving final checkpoint at step 3",
        "Peak memory: ",
        "RL trainer finished",
    ]
    places = [next(i for i, message in enumerate(said) if message.startswith(start)) for start in expected]
    assert places == sorted(places)
    assert [m["step"] for line in lines.of("SUCCESS") if (m := STEP_LINE.match(line))] == ["1", "2", "3"]
    assert len([line for line in lines.of("DEBUG") if MICRO_LINE.match(line)]) == 6
    assert lines.of("SUCCESS")[-1] == "RL trainer finished"


def test_every_version_is_published_from_the_start_to_the_last(run: Run) -> None:
    assert run.received == [0, 1, 2, 3]
    states = list_broadcasts(run.config.output_dir / "broadcasts")
    assert [verify_weights(state.path, state.version) for state in states] == [0, 1, 2, 3]
    start = load_file(states[0].path / "model.safetensors")
    base = load_file(Path(run.config.model.name) / "model.safetensors")
    assert start.keys() == base.keys()
    assert all(torch.equal(start[name], base[name]) for name in base)


def test_a_step_leaves_the_contracts_metrics(run: Run) -> None:
    metrics = run.monitor.step(2)
    assert len([row for step, row in run.monitor.rows if step == 2]) == 5
    assert {
        *(f"loss/{x}" for x in ("mean", "median", "std", "min", "max")),
        *(
            f"{q}/{e}/{x}"
            for q in ("entropy", "mismatch_kl")
            for e in ("all", "words", "numbers")
            for x in ("mean", "std", "max")
        ),
        *(f"{q}/{x}" for q in ("is_masked", "masked_mismatch_kl", "unmasked_mismatch_kl") for x in ("mean", "max")),
        "kl_ent_ratio/mean",
        "optim/lr",
        "optim/grad_norm",
        *(f"perf/{x}" for x in ("throughput", "throughput_per_gpu", "mfu", "peak_memory")),
        *(
            f"time/{x}"
            for x in ("step", "wait_for_batch", "load_data", "forward_backward", "broadcast_weights", "save_ckpt")
        ),
        *(f"system/ckpt_disk_{x}" for x in ("free_gib", "used_gib", "total_gib", "free_ratio")),
    } == set(metrics)
    phases = ("wait_for_batch", "load_data", "forward_backward", "broadcast_weights", "save_ckpt")
    assert sum(metrics[f"time/{phase}"] for phase in phases) <= metrics["time/step"]
    assert metrics["time/save_ckpt"] > 0
    assert run.monitor.step(1)["time/save_ckpt"] == 0
    # A new model is nearly uniform over its 265 tokens, and so was the made-up sampler.
    assert metrics["entropy/all/mean"] == pytest.approx(5.5, abs=0.2)
    assert metrics["mismatch_kl/all/mean"] < 0.05


def test_every_trained_sequence_is_annotated_over_its_whole_branch(run: Run) -> None:
    assert [update["trace_id"] for update in run.monitor.updates] == [f"t{i}" for i in range(7)] * 3
    update = run.monitor.updates[1]
    assert update["version"] == 1
    assert update["info"] == {}
    (branch,) = update["branches"]
    assert branch["index"] == 0
    for stream in ("trainer_logprobs", "entropies", "mismatch_kl", "is_masked"):
        assert len(branch[stream]) == 12
        assert [value is None for value in branch[stream]] == [True] * 6 + [False] * 6
    assert all(value < 0 for value in branch["trainer_logprobs"][6:])
    assert not any(branch["is_masked"][6:])


def test_the_result_loads_with_its_tokenizer_and_equals_the_last_broadcast(run: Run) -> None:
    result = run.config.output_dir / "weights" / "step_3"
    loaded = AutoModelForCausalLM.from_pretrained(result)
    assert AutoTokenizer.from_pretrained(result).eos_token == "<|im_end|>"
    assert loaded.generation_config.eos_token_id
    last = load_file(run.config.output_dir / "broadcasts" / "step_3" / "model.safetensors")
    assert all(torch.equal(last[name], tensor) for name, tensor in loaded.state_dict().items())
    assert [path.name for path in result.parent.iterdir()] == ["step_3"]
    assert (run.config.output_dir / "trainer_step").read_text() == "3\n"


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(run: Run, tmp_path: Path) -> None:
    root = run.config.output_dir
    assert complete_steps(root / "checkpoints") == [2, 3]
    fork = trainer_config(
        tmp_path, Path(run.config.model.name), max_steps=3, resume={"dir": root / "checkpoints" / "step_2"}
    )
    monitor, received = train(fork, {3: BATCHES[3]})
    assert received == [2, 3]
    again = load_file(tmp_path / "broadcasts" / "step_3" / "model.safetensors")
    once = load_file(root / "broadcasts" / "step_3" / "model.safetensors")
    for name in once:
        torch.testing.assert_close(again[name], once[name], atol=1e-6, rtol=1e-5)
    assert monitor.step(3)["loss/mean"] == pytest.approx(run.monitor.step(3)["loss/mean"], abs=1e-6)


def test_two_ranks_give_the_loss_gradient_and_weights_of_one(run: Run, model: Path, tmp_path: Path) -> None:
    config = trainer_config(tmp_path / "run", model, max_steps=3, ckpt={"interval": 2})
    halves: dict[int, list[Sequence[MicroBatch]]] = {step: [[part] for part in batch(step)] for step in (1, 2, 3)}
    with orchestrator(config, halves) as received:
        output = torchrun(config, ranks=2, directory=tmp_path)
    assert received == [0, 1, 2, 3], output
    rows = [json.loads(line) for line in (config.output_dir / "monitors/file/metrics.jsonl").read_text().splitlines()]
    for step in (1, 2, 3):
        mine = {key: value for row in rows if row["step"] == step for key, value in row.items()}
        one = run.monitor.step(step)
        for key in (
            "loss/mean",
            "loss/max",
            "optim/grad_norm",
            "entropy/numbers/mean",
            "mismatch_kl/all/std",
            "is_masked/max",
        ):
            assert mine[key] == pytest.approx(one[key], rel=1e-4, abs=1e-6), key
    two = load_file(config.output_dir / "broadcasts" / "step_3" / "model.safetensors")
    once = load_file(run.config.output_dir / "broadcasts" / "step_3" / "model.safetensors")
    for name in once:
        torch.testing.assert_close(two[name], once[name], atol=2e-5, rtol=1e-3)
    # A checkpoint of two ranks is one that one rank can go on from.
    saved = config.output_dir / "checkpoints" / "step_2"
    alone = trainer_config(tmp_path / "alone", model, max_steps=3, resume={"dir": saved})
    monitor, _ = train(alone, {3: BATCHES[3]})
    assert monitor.step(3)["optim/grad_norm"] == pytest.approx(run.monitor.step(3)["optim/grad_norm"], rel=1e-4)


def torchrun(config: TrainerConfig, ranks: int, directory: Path) -> str:
    """Run the trainer's command under torchrun to its end and return what it printed."""
    file = directory / "trainer.json"
    file.write_text(config.model_dump_json())
    command = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
    command += [f"--nproc-per-node={ranks}", "-m", "prl.cli.trainer", "@", str(file)]
    process = subprocess.Popen(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PRIME_LOG_LEVEL": "info"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, output
    return output


def test_the_command_tells_an_error_and_exits_1(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "trainer.json"
    config = trainer_config(tmp_path / "run", model, max_steps=1, batch_timeout=0.2, weight_broadcast={"timeout": 0.5})
    file.write_text(config.model_dump_json())
    done = subprocess.run(
        [sys.executable, "-m", "prl.cli.trainer", "@", str(file)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert re.search(r"^\d\d:\d\d:\d\d   ERROR Fatal error in train$", done.stdout, re.MULTILINE)
    assert "No receiver joined the broadcast within" in done.stdout


def test_a_batch_of_another_step_is_refused(model: Path, tmp_path: Path) -> None:
    config = trainer_config(tmp_path, model, max_steps=9)
    with pytest.raises(BatchError, match=r"batch of step 5 for policy v4, expected step 1 for v0"):
        train(config, {5: BATCHES[1]})


def test_a_micro_batch_beyond_the_models_length_is_refused(model: Path, tmp_path: Path) -> None:
    config = trainer_config(tmp_path, model, max_steps=1, seq_len=40)
    with pytest.raises(BatchError, match=r"up to 46 tokens; model.seq_len = 40"):
        train(config, {1: BATCHES[1]})


def test_a_batch_that_does_not_come_is_named(model: Path, tmp_path: Path) -> None:
    config = trainer_config(tmp_path, model, max_steps=2, batch_timeout=0.3)
    with pytest.raises(
        TimeoutError, match=r"the batch of step 2 from the orchestrator \(localhost:\d+\) did not arrive"
    ):
        train(config, {1: BATCHES[1]})


def test_nothing_left_to_train_is_refused_before_anything_is_published(run: Run) -> None:
    config = run.config.model_copy(update={"resume": TrainerConfig.model_validate({"resume": {}}).resume})
    with pytest.raises(ResumeError, match=r"nothing is left to train: .*step_3 is at step 3 and max_steps = 3"):
        RLTrainer(config, ONE_RANK, RecordingMonitor()).run()


def test_padding_alone_trains_nothing_and_breaks_nothing(model: Path, tmp_path: Path) -> None:
    config = trainer_config(tmp_path, model, max_steps=1)
    monitor, _ = train(config, {1: [[padding()]]})
    assert monitor.updates == []
    metrics = monitor.step(1)
    assert metrics["optim/grad_norm"] == 0.0
    assert metrics["loss/mean"] == 0.0
    assert "entropy/all/mean" not in metrics
    before, after = (load_file(tmp_path / "broadcasts" / f"step_{v}" / "model.safetensors") for v in (0, 1))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_without_clipping_there_is_no_gradient_norm(model: Path, tmp_path: Path) -> None:
    config = trainer_config(tmp_path, model, max_steps=1, optim={"lr": 1e-3, "max_norm": None})
    monitor, _ = train(config, {1: BATCHES[1]})
    assert "optim/grad_norm" not in monitor.step(1)


def test_waiting_for_a_batch_longer_than_working_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    from prl.trainer.report import warn_of_waiting

    with caplog.at_level(logging.WARNING, logger="prl"):
        warn_of_waiting(1.0, 2.5)
        assert not caplog.messages
        warn_of_waiting(124.0, 165.0)
    assert WAIT_LINE.match(caplog.messages[0])
    assert "waited 2m 4s" in caplog.messages[0]
    assert "its 41.0s active" in caplog.messages[0]

"""Supervised fine-tuning learns, records itself, resumes, and gives the same on two ranks as on one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from prl.config import SFTConfig
from prl.rundir.checkpoints import TRAINER, complete_steps
from prl.trainer.parallel import World
from prl.trainer.sft import SFTTrainer
from prl.trainer.tiny import make_tiny_model
from trainer_peer import RecordingMonitor

torch.set_num_threads(1)
ONE_RANK = World(0, 1, torch.device("cpu"))
STEPS = 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A tied head, unlike the RL trainer's tests: both kinds are then trained on two ranks.
    return make_tiny_model(tmp_path_factory.mktemp("model"), hidden_size=16, tie_word_embeddings=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcd"), rng.integers(3, 9))) for _ in range(20)]
    path = tmp_path_factory.mktemp("data") / "words.jsonl"
    turns = [[{"role": "user", "content": w}, {"role": "assistant", "content": w[::-1]}] for w in words]
    path.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in turns))
    return path


def config(root: Path, model: Path, data: Path, **changes: Any) -> SFTConfig:
    values: dict[str, Any] = {
        "run": {"name": "warm"},
        "output_dir": root,
        "model": {"name": str(model)},
        "data": {"path": data, "batch_size": 7, "seq_len": 120},
        "optim": {"lr": 1e-2},
        "max_steps": STEPS,
        "peak_flops": 1e11,
        "ckpt": {"interval": 2},
    }
    return SFTConfig.model_validate(values | changes)


def train(config: SFTConfig) -> RecordingMonitor:
    config.run_dir.mkdir(parents=True)
    monitor = RecordingMonitor()
    SFTTrainer(config, ONE_RANK, monitor).run()
    return monitor


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, model: Path, data: Path) -> tuple[SFTConfig, RecordingMonitor]:
    made = config(tmp_path_factory.mktemp("sft"), model, data)
    return made, train(made)


def test_the_loss_is_the_mean_over_the_assistants_tokens_and_falls(
    run: tuple[SFTConfig, RecordingMonitor], model: Path, data: Path
) -> None:
    made, monitor = run
    losses = [monitor.step(step)["loss/mean"] for step in range(1, STEPS + 1)]
    assert losses[-1] < losses[0] - 0.5
    assert monitor.step(1)["loss/perplexity"] == pytest.approx(np.exp(losses[0]))
    trainer = SFTTrainer(made, ONE_RANK, RecordingMonitor())
    plain = AutoModelForCausalLM.from_pretrained(model)
    total, count = 0.0, 0
    for conversation in trainer._chosen():
        ids = torch.from_numpy(conversation.token_ids)[None]
        labels = torch.where(torch.from_numpy(conversation.loss_mask), ids, -100)
        learned = int(conversation.loss_mask.sum())
        with torch.no_grad():
            total += float(plain(ids, labels=labels).loss) * learned
        count += learned
    assert losses[0] == pytest.approx(total / count, rel=1e-4)


def test_a_step_leaves_the_contracts_metrics(run: tuple[SFTConfig, RecordingMonitor]) -> None:
    made, monitor = run
    metrics = monitor.step(3)
    assert {
        *("loss/mean", "loss/perplexity", "entropy/all/mean"),
        *("progress/epoch", "progress/num_samples", "progress/num_tokens"),
        *("optim/lr", "optim/grad_norm"),
        *(f"perf/{x}" for x in ("throughput", "throughput_per_gpu", "mfu", "peak_memory")),
        *(f"time/{x}" for x in ("step", "load_data", "forward_backward", "save_ckpt")),
        *(f"system/ckpt_disk_{x}" for x in ("free_gib", "used_gib", "total_gib", "free_ratio")),
    } == set(metrics)
    assert metrics["progress/num_samples"] == 21
    assert metrics["progress/epoch"] == 21 / 20
    assert (made.run_dir / "trainer_step").read_text() == "4\n"


def test_the_result_loads(run: tuple[SFTConfig, RecordingMonitor]) -> None:
    result = run[0].run_dir / "weights" / f"step_{STEPS}"
    assert AutoModelForCausalLM.from_pretrained(result).config.model_type == "qwen3"
    assert AutoTokenizer.from_pretrained(result).chat_template


def test_a_resumed_training_sees_what_is_left_and_ends_the_same(
    run: tuple[SFTConfig, RecordingMonitor], model: Path, data: Path, tmp_path: Path
) -> None:
    made, monitor = run
    assert complete_steps(made.run_dir / "checkpoints", (TRAINER,)) == [2, 4]
    again = train(config(tmp_path, model, data, resume={"dir": made.run_dir / "checkpoints" / "step_2"}))
    assert sorted({step for step, _ in again.rows}) == [3, 4]
    for step in (3, 4):
        assert again.step(step)["loss/mean"] == pytest.approx(monitor.step(step)["loss/mean"], rel=1e-5)
    assert weights_agree(made.run_dir, tmp_path / "warm")


def weights_agree(one: Path, other: Path) -> bool:
    first, second = (load_file(path / "weights" / f"step_{STEPS}" / "model.safetensors") for path in (one, other))
    return all(torch.allclose(first[name], second[name], atol=1e-5, rtol=1e-3) for name in first)


def test_two_ranks_of_the_command_give_what_one_gives(
    run: tuple[SFTConfig, RecordingMonitor], model: Path, data: Path, tmp_path: Path
) -> None:
    # 7 conversations a step: the ranks' shares differ, and so does the number of micro batches that fit them.
    made = config(tmp_path, model, data, ckpt=None)
    file = tmp_path / "sft.json"
    file.write_text(made.model_dump_json())
    command = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
    command += ["--nproc-per-node=2", "-m", "prl.cli.sft_trainer", "@", str(file)]
    process = subprocess.Popen(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
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
    assert "SUCCESS SFT trainer finished" in output
    rows = [json.loads(line) for line in (made.run_dir / "monitors/file/metrics.jsonl").read_text().splitlines()]
    for key in ("loss/mean", "optim/grad_norm", "entropy/all/mean", "progress/num_tokens"):
        found = [row[key] for row in rows if key in row]
        assert found == pytest.approx([run[1].step(step)[key] for step in range(1, STEPS + 1)], rel=1e-4), key
    assert weights_agree(run[0].run_dir, made.run_dir)

"""TRL's GRPOTrainer on the demo's model and task, run by ``benchmarks/vs_trl.py`` in TRL's own environment.

Prints one JSON line a step: ``{"step": n, "time": seconds since the first step began, "reward": mean}``. Reward,
prompts, batch (16 prompts x 8 completions), learning rate, clipping and temperature are those of the demo; no KL term.
"""

import argparse
import difflib
import json
import random
import string
import time
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer


def words(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(5, 10))) for _ in range(count)]


def reward(completions: list[Any], word: list[str], **_: Any) -> list[float]:
    """Ratio of difflib between the completion and the reversed word, as in the reverse-text environment."""
    texts = [completion[-1]["content"] for completion in completions]
    return [difflib.SequenceMatcher(None, text, target[::-1]).ratio() for text, target in zip(texts, word, strict=True)]


class Progress(TrainerCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.start = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.start = self.start or time.monotonic()

    def on_log(self, _args: Any, state: Any, _control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if logs and "reward" in logs:
            row = {"step": state.global_step, "time": time.monotonic() - self.start, "reward": logs["reward"]}
            print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", default="{word}", help="the environment's user message, with {word} for the word")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tasks = words(4096, seed=0)
    data = Dataset.from_list(
        [{"prompt": [{"role": "user", "content": args.prompt.format(word=w)}], "word": w} for w in tasks]
    )
    config = GRPOConfig(
        output_dir=args.out,
        use_cpu=True,
        per_device_train_batch_size=128,
        num_generations=8,
        max_completion_length=16,
        max_steps=args.steps,
        learning_rate=3e-4,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        weight_decay=0.0,
        beta=0.0,
        temperature=1.0,
        scale_rewards="none",
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=args.model, reward_funcs=reward, args=config, train_dataset=data, callbacks=[Progress()]
    )
    trainer.train()


if __name__ == "__main__":
    main()

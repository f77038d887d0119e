"""Make what the reverse-text example starts from: a tiny random model and conversations to warm it up.

    python examples/reverse_text/prepare.py outputs/reverse-text [--seed 0]

Writes ``base/`` (a Hugging Face directory, 0.46 M parameters, a byte is a token) and ``sft.jsonl``. In 70 % of the
conversations the answer is spoiled (the word copied, the reversed letters shuffled, or the answer cut short), so that
supervised training teaches the task's form and part of its skill and leaves the rest to reinforcement learning.
Words come from another seed than those of the environment.
"""

import argparse
import json
import random
import string
from pathlib import Path

SPOILED_SHARE = 0.7
CONVERSATIONS = 16_000


def random_word(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(5, 10)))


def spoil(word: str, rng: random.Random) -> str:
    """A wrong answer to ``word`` of the kind a half-trained model gives."""
    answer = word[::-1]
    kind = rng.choice(("copied", "shuffled", "cut"))
    if kind == "copied":
        return word
    if kind == "shuffled":
        return "".join(rng.sample(answer, len(answer)))
    return answer[: rng.randint(1, len(answer) - 1)]


def conversation(rng: random.Random) -> dict[str, list[dict[str, str]]]:
    word = random_word(rng)
    answer = spoil(word, rng) if rng.random() < SPOILED_SHARE else word[::-1]
    return {"messages": [{"role": "user", "content": word}, {"role": "assistant", "content": answer}]}


def prepare(directory: Path, seed: int) -> None:
    from transformers.utils.logging import disable_progress_bar

    from prl.trainer.tiny import make_tiny_model

    disable_progress_bar()
    directory.mkdir(parents=True, exist_ok=True)
    make_tiny_model(directory / "base", seed=seed)
    rng = random.Random(10_000 + seed)
    with (directory / "sft.jsonl").open("w") as file:
        file.writelines(json.dumps(conversation(rng)) + "\n" for _ in range(CONVERSATIONS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    prepare(args.directory, args.seed)
    print(f"{args.directory}/base and {args.directory}/sft.jsonl are ready")


if __name__ == "__main__":
    main()

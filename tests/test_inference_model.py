"""The forward pass against transformers: prefill, decode, shared prompts, moved slots."""

import random
from pathlib import Path

import pytest
import torch

from engine_models import reference_logprobs, shaken_model
from prl.inference.architecture import read_architecture
from prl.inference.model import KVCache, Model
from prl.inference.weights import load_weights
from prl.trainer.tiny import Family

torch.set_num_threads(1)
TOLERANCE = 1e-4


def load(directory: Path, *, slots: int = 6, max_len: int = 96) -> tuple[Model, KVCache]:
    arch = read_architecture(directory)
    return Model(arch, load_weights(directory, arch), max_len), KVCache(arch, slots, max_len)


def padded(prompts: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, prompts))
    rows = [prompt + [0] * (longest - len(prompt)) for prompt in prompts]
    return torch.tensor(rows), torch.tensor([len(prompt) for prompt in prompts])


CASES = [(family, tied) for family in ("llama", "qwen2", "qwen3") for tied in (False, True)]


@pytest.mark.parametrize(("family", "tied"), CASES)
def test_prefill_and_decode_give_the_log_probabilities_of_transformers(
    tmp_path: Path, family: Family, tied: bool
) -> None:
    directory = shaken_model(tmp_path, family=family, tied=tied)
    model, cache = load(directory)
    rng = random.Random(1)
    sequences = [[rng.randrange(265) for _ in range(length)] for length in (3, 17, 40)]
    prompt_lengths = [2, 9, 12]
    expected = [reference_logprobs(directory, sequence) for sequence in sequences]

    prompts = [sequence[:length] for sequence, length in zip(sequences, prompt_lengths, strict=True)]
    tokens, lengths = padded(prompts)
    # The third prompt is held twice: by slots 2 and 3.
    rows, slots = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 2, 3])
    logits = model.prefill(tokens, lengths, rows, slots, cache)
    for row, length in enumerate(prompt_lengths):
        torch.testing.assert_close(logits[row].log_softmax(-1), expected[row][length - 1], atol=TOLERANCE, rtol=0)

    # Slots of different length decode together; slot 0 runs out of tokens first and hands its place to slot 3.
    owners = [0, 1, 2, 2]
    at = [prompt_lengths[owner] for owner in owners]
    while owners:
        step_tokens = torch.tensor([sequences[owner][i] for owner, i in zip(owners, at, strict=True)])
        logits = model.decode(step_tokens, torch.tensor(at), max(at) + 1, cache)
        for slot, (owner, position) in enumerate(zip(owners, at, strict=True)):
            got = logits[slot].log_softmax(-1)
            torch.testing.assert_close(got, expected[owner][position], atol=TOLERANCE, rtol=0)
        at = [position + 1 for position in at]
        done = [slot for slot, owner in enumerate(owners) if at[slot] == len(sequences[owner])]
        for slot in reversed(done):
            last = len(owners) - 1
            if slot != last:
                cache.move([last], [slot], at[last])
                owners[slot], at[slot] = owners[last], at[last]
            owners.pop()
            at.pop()


def test_llama_3_rotary_scaling_is_that_of_transformers(tmp_path: Path) -> None:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 10_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    directory = shaken_model(tmp_path, family="llama", config={"rope_parameters": rope})
    assert read_architecture(directory).rope_scaling is not None
    model, cache = load(directory)
    sequence = [(7 * i) % 265 for i in range(80)]
    tokens, lengths = padded([sequence])
    logits = model.prefill(tokens, lengths, torch.tensor([0]), torch.tensor([0]), cache)
    expected = reference_logprobs(directory, sequence)[-1]
    torch.testing.assert_close(logits[0].log_softmax(-1), expected, atol=TOLERANCE, rtol=0)


def test_a_cache_takes_no_memory_before_it_is_written(tmp_path: Path) -> None:
    import psutil

    arch = read_architecture(shaken_model(tmp_path))
    before = psutil.Process().memory_info().rss
    cache = KVCache(arch, 512, 4096)
    assert cache.data.nbytes == KVCache.num_bytes(arch, 512, 4096) > 500e6
    assert psutil.Process().memory_info().rss - before < 50e6

"""FLOPs counted by hand for a small model; what a CPU and a configured peak give."""

from pathlib import Path

import numpy as np
import pytest
import torch

from prl.trainer.model import load_model
from prl.trainer.parallel import World
from prl.trainer.throughput import FlopCount, Meter, count_flops, mean_sequence_length, peak_flops
from prl.trainer.tiny import make_tiny_model

CPU = torch.device("cpu")


def test_flops_count_what_is_multiplied_with() -> None:
    assert FlopCount(matmul_parameters=10, attention_width=4).per_token(3.0) == 6 * 10 + 12 * 4 * 3


def test_a_models_count_leaves_out_embeddings_and_norms_and_has_the_head(tmp_path: Path) -> None:
    model = load_model(str(make_tiny_model(tmp_path, hidden_size=16, num_layers=2)), CPU)
    flops = count_flops(model)
    # Per layer: q and o 16x16, k and v 16x8, three 16x48 in the MLP; then the head over 265 tokens.
    assert flops.matmul_parameters == 2 * (2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 48) + 16 * 265
    assert flops.attention_width == 2 * 16


def test_the_mean_length_weighs_by_tokens() -> None:
    assert mean_sequence_length(np.array([1, 3])) == (1 * 1 + 3 * 3) / 4


def test_mfu_is_a_percentage_of_all_devices_peaks() -> None:
    meter = Meter(FlopCount(100, 0), peak=6000.0, world=World(0, 2, CPU))
    measured = meter.measure(np.array([4, 6]), seconds=2.0)
    assert measured["perf/throughput"] == 5.0
    assert measured["perf/throughput_per_gpu"] == 2.5
    assert measured["perf/mfu"] == pytest.approx(100 * 5 * 600 / (2 * 6000))
    assert measured["perf/peak_memory"] > 0


def test_a_configured_peak_holds_and_a_cpu_is_measured() -> None:
    assert peak_flops(123.0, CPU) == 123.0
    assert peak_flops(None, CPU) > 1e8

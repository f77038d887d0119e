"""Statistics against a plain loop over tokens; annotations against what a reader of the run contract expects."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prl.trainer.policy import MicroTerms
from prl.trainer.statistics import annotations, step_statistics, trained_sequences

ENVS = ("a", "b")


@st.composite
def micro_terms(draw: st.DrawFn) -> MicroTerms:
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    starts = np.cumsum(lengths) - lengths
    learned = [
        (int(start) + place, sequence)
        for sequence, (start, length) in enumerate(zip(starts, lengths, strict=True))
        for place in range(1, length)
        if rng.random() < 0.6
    ]
    n = len(learned)
    return MicroTerms(
        loss=float(rng.normal()),
        lengths=np.array(lengths),
        trace_ids=[f"t{i}" for i in range(len(lengths))],
        branch_indices=[0] * len(lengths),
        env_names=[ENVS[i] for i in rng.integers(0, 2, len(lengths))],
        positions=np.array([position for position, _ in learned], dtype=np.int64),
        sequence_of=np.array([sequence for _, sequence in learned], dtype=np.int64),
        logprobs=-rng.exponential(1, n).astype(np.float32),
        entropy=rng.exponential(1, n).astype(np.float32),
        mismatch_kl=rng.exponential(0.01, n).astype(np.float32),
        is_masked=rng.random(n) < 0.3,
    )


def plain_statistics(parts: list[MicroTerms]) -> dict[str, float]:
    """One token and one sequence after the other."""
    pools: dict[str, list[float]] = {}
    for part in parts:
        pools.setdefault("loss", []).append(part.loss)
        for sequence in range(len(part.lengths)):
            at = [i for i in range(len(part.positions)) if part.sequence_of[i] == sequence]
            if not at:
                continue
            for i in at:
                for key in ("all", part.env_names[sequence]):
                    pools.setdefault(f"entropy/{key}", []).append(float(part.entropy[i]))
                    pools.setdefault(f"mismatch_kl/{key}", []).append(float(part.mismatch_kl[i]))
            dropped = [float(part.mismatch_kl[i]) for i in at if part.is_masked[i]]
            kept = [float(part.mismatch_kl[i]) for i in at if not part.is_masked[i]]
            pools.setdefault("is_masked", []).append(len(dropped) / len(at))
            pools.setdefault("masked_mismatch_kl", []).append(sum(dropped) / len(dropped) if dropped else 0.0)
            pools.setdefault("unmasked_mismatch_kl", []).append(sum(kept) / len(kept) if kept else 0.0)
    found: dict[str, float] = {}
    for name, pool in pools.items():
        ordered = sorted(pool)
        mean = sum(pool) / len(pool)
        half = len(pool) // 2
        found[f"{name}/mean"] = mean
        found[f"{name}/max"] = ordered[-1]
        if name == "loss":
            found[f"{name}/min"] = ordered[0]
            found[f"{name}/median"] = ordered[half] if len(pool) % 2 else (ordered[half - 1] + ordered[half]) / 2
        if name == "loss" or name.startswith(("entropy", "mismatch_kl")):
            found[f"{name}/std"] = math.sqrt(sum((x - mean) ** 2 for x in pool) / len(pool))
    if found.get("entropy/all/mean", 0.0) > 0:
        found["kl_ent_ratio/mean"] = found["mismatch_kl/all/mean"] / found["entropy/all/mean"]
    return found


@given(st.lists(micro_terms(), min_size=1, max_size=4))
@settings(deadline=None, max_examples=60)
def test_statistics_are_those_of_a_plain_loop(parts: list[MicroTerms]) -> None:
    assert step_statistics(parts) == pytest.approx(plain_statistics(parts), rel=1e-9, abs=1e-12)


@given(st.lists(micro_terms(), min_size=1, max_size=3))
@settings(deadline=None, max_examples=40)
def test_every_learned_token_is_annotated_once_at_its_place(parts: list[MicroTerms]) -> None:
    branches = [branch for update in annotations(parts) for branch in update["branches"]]
    assert len(branches) == trained_sequences(parts)
    values = sorted(x for branch in branches for x in branch["trainer_logprobs"] if x is not None)
    assert values == sorted(float(x) for part in parts for x in part.logprobs)
    for branch in branches:
        streams = [branch[name] for name in ("trainer_logprobs", "entropies", "mismatch_kl", "is_masked")]
        assert {tuple(x is None for x in stream) for stream in streams} == {tuple(x is None for x in streams[0])}
        assert streams[0][0] is None


def test_the_branches_of_a_trace_come_in_one_update_whatever_micro_batches_they_were_in() -> None:
    def one(branch: int, length: int) -> MicroTerms:
        ones = np.ones(1, dtype=np.float32)
        return MicroTerms(
            loss=0.0,
            lengths=np.array([length]),
            trace_ids=["t"],
            branch_indices=[branch],
            env_names=["a"],
            positions=np.array([length - 1]),
            sequence_of=np.array([0]),
            logprobs=-ones,
            entropy=ones,
            mismatch_kl=ones * 1e-6,
            is_masked=np.array([True]),
        )

    (update,) = annotations([one(1, 3), one(0, 2)])
    assert [branch["index"] for branch in update["branches"]] == [0, 1]
    assert update["branches"][1]["is_masked"] == [None, None, True]
    assert update["branches"][1]["mismatch_kl"][2] == pytest.approx(1e-6)

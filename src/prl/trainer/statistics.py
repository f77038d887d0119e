"""Statistics and annotations of one step, from what all ranks recorded. Numpy alone.

Token statistics weigh every loss token alike, sequence statistics every sequence that has one. The standard deviation
is that of the values at hand (not of a population they were drawn from).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from prl.trainer.policy import MicroTerms

_REDUCE: dict[str, Callable[[np.ndarray], Any]] = {
    "mean": np.mean,
    "median": np.median,
    "std": np.std,
    "min": np.min,
    "max": np.max,
}


def step_statistics(terms: Sequence[MicroTerms]) -> dict[str, float]:
    """The tensor statistics of a step by metric name. A family without a value is absent.

    ``loss/*`` is over micro batches of all ranks; ``entropy`` and ``mismatch_kl`` over loss tokens, of all and of each
    environment; the rest over sequences.
    """
    with np.errstate(invalid="ignore", over="ignore"):  # a non-finite value is the monitor's to name
        return _step_statistics(terms)


def _step_statistics(terms: Sequence[MicroTerms]) -> dict[str, float]:
    metrics = _reduced("loss", np.array([term.loss for term in terms]), ("mean", "median", "std", "min", "max"))
    env_of = _joined(np.array(term.env_names, dtype=object)[term.sequence_of] for term in terms)
    for name in ("entropy", "mismatch_kl"):
        values = _joined(getattr(term, name) for term in terms)
        metrics |= _reduced(f"{name}/all", values, ("mean", "std", "max"))
        for env in sorted(set(env_of)):
            metrics |= _reduced(f"{name}/{env}", values[env_of == env], ("mean", "std", "max"))
    shares, inside, outside = (np.concatenate(parts) for parts in zip(*map(_per_sequence, terms), strict=True))
    metrics |= _reduced("is_masked", shares, ("mean", "max"))
    metrics |= _reduced("masked_mismatch_kl", inside, ("mean", "max"))
    metrics |= _reduced("unmasked_mismatch_kl", outside, ("mean", "max"))
    if metrics.get("entropy/all/mean", 0.0) > 0:
        metrics["kl_ent_ratio/mean"] = metrics["mismatch_kl/all/mean"] / metrics["entropy/all/mean"]
    return metrics


def _reduced(name: str, values: np.ndarray, reductions: Iterable[str]) -> dict[str, float]:
    if not len(values):
        return {}
    exact = values.astype(np.float64)
    return {f"{name}/{reduction}": float(_REDUCE[reduction](exact)) for reduction in reductions}


def _joined(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate(list(parts))


def _per_sequence(terms: MicroTerms) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per sequence with loss tokens: the masked share, then the mean mismatch KL of its masked and of its kept tokens.

    A mean over no token is 0.
    """
    count = len(terms.lengths)
    masked = terms.is_masked.astype(np.float64)
    kl = terms.mismatch_kl.astype(np.float64)

    def total(weights: np.ndarray) -> np.ndarray:
        return np.bincount(terms.sequence_of, weights=weights, minlength=count)

    tokens, dropped = total(np.ones_like(masked)), total(masked)
    present = tokens > 0
    kept = tokens - dropped
    return (
        dropped[present] / tokens[present],
        total(np.where(terms.is_masked, kl, 0.0))[present] / np.maximum(dropped[present], 1),
        total(np.where(terms.is_masked, 0.0, kl))[present] / np.maximum(kept[present], 1),
    )


def trained_sequences(terms: Sequence[MicroTerms]) -> int:
    """Sequences with at least one loss token."""
    return sum(len(np.unique(term.sequence_of)) for term in terms)


def annotations(terms: Sequence[MicroTerms]) -> list[dict[str, Any]]:
    """Trace updates with the per-token streams of every trained sequence; the branches of a trace in one update.

    A stream is as long as its branch and null outside the loss mask, so at the first token always.
    """
    branches: dict[str, list[dict[str, Any]]] = {}
    for term in terms:
        starts = np.cumsum(term.lengths) - term.lengths
        for sequence in np.unique(term.sequence_of).tolist():
            of = term.sequence_of == sequence
            places = (term.positions[of] - starts[sequence]).tolist()
            length = int(term.lengths[sequence])
            branch: dict[str, Any] = {"index": term.branch_indices[sequence]}
            for name, values in _streams(term).items():
                branch[name] = _spread(values[of].tolist(), places, length)
            branches.setdefault(term.trace_ids[sequence], []).append(branch)
    return [
        {"version": 1, "trace_id": trace, "info": {}, "branches": sorted(parts, key=lambda branch: branch["index"])}
        for trace, parts in branches.items()
    ]


def _streams(term: MicroTerms) -> Mapping[str, np.ndarray]:
    return {
        "trainer_logprobs": term.logprobs,
        "entropies": term.entropy,
        "mismatch_kl": term.mismatch_kl,
        "is_masked": term.is_masked,
    }


def _spread(values: list[Any], places: list[int], length: int) -> list[Any]:
    stream: list[Any] = [None] * length
    for place, value in zip(places, values, strict=True):
        stream[place] = value
    return stream

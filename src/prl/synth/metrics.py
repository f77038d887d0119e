"""``metrics.jsonl``: the rows of a run, and files of any size for measuring readers."""

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from prl.rundir import jsonl
from prl.rundir.metrics.writer import metrics_row
from prl.synth.shape import ENVIRONMENTS, START, RunShape
from prl.synth.streams import open_rows

_BLOCK = 500
"""Rows made at a time."""
_CADENCE = 50
"""A sparse key has a value on one row in so many."""

OVERVIEW_KEYS = (
    *(
        f"train/{env}/effective/agent/reward/{stat}"
        for env in ("agg", "reverse-text")
        for stat in ("mean", "p10", "p90")
    ),
    *(
        f"train/agg/{name}/mean"
        for name in ("effective/num_turns", "effective/num_total_tokens", "effective/num_branches")
    ),
    *(f"train/agg/all/{name}/mean" for name in ("has_error", "agent/is_timeout", "agent/is_truncated")),
    *(f"optim/{name}" for name in ("grad_norm", "lr")),
    *(f"{name}/mean" for name in ("entropy/all", "mismatch_kl/all", "kl_ent_ratio", "is_masked", "loss")),
    *(f"perf/{name}" for name in ("mfu", "throughput", "peak_memory")),
    *(
        f"time/{name}"
        for name in ("step", "wait_for_batch", "wait_for_policy", "forward_backward", "broadcast_weights")
    ),
    *(f"off_policy/{name}" for name in ("mean", "max")),
    "progress/tokens",
)
"""Thirty series that an overview shows."""


class MetricsFile:
    """Appends the rows of a run."""

    def __init__(self, path: Path, shape: RunShape) -> None:
        self._file = open_rows(path)
        self._with_producer = shape.layout != "A"

    def add(self, values: Mapping[str, float], *, step: int | None, time: float, producer: str) -> list[str]:
        """Write a row; the names of the values that are not finite, which it lacks."""
        row, dropped = metrics_row(values, step=step, time=round(time, 3), producer=producer)
        if not self._with_producer:
            del row["producer"]
        self._file.write(jsonl.encode(row))
        return dropped

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def metric_names(count: int) -> list[str]:
    """``count`` names in the contract's families, the overview's first."""
    stats = ("mean", "max", "min", "p10", "p90")
    families = [
        *("num_turns", "num_output_tokens", "num_input_tokens"),
        *(f"agent/timing/{stage}" for stage in ("total", "agent/model", "scoring")),
        *("agent/metrics/exact", "agent/rewards/correct", "agent/rewards/format"),
    ]
    environments = (environment.name for environment in ENVIRONMENTS)
    first = product(environments, ("all", "effective"), families, stats)
    names = dict.fromkeys([*OVERVIEW_KEYS, *("train/" + "/".join(parts) for parts in first)])
    engine = 0
    while len(names) < count:
        for name, stat in product(
            ("kv_cache_usage_perc", "num_requests_running", "generation_tokens_total:rate"), stats
        ):
            names[f"inference/server{engine}.0/{name}/{stat}"] = None
        engine += 1
    return list(names)[:count]


def metrics_file(
    path: Path, rows: int = 50_001, keys: int = 200, *, sparse: bool = False, start: float = START, seed: int = 0
) -> list[str]:
    """Write ``rows`` rows, one a step from 0 on; returns the names of the metrics.

    Each row has all ``keys``; if ``sparse``, each has the overview's and one in fifty of the others. 50,001 rows of 200
    keys are about half a gigabyte.
    """
    names = metric_names(keys)
    dense = names[: len(OVERVIEW_KEYS)] if sparse else names
    turns = [[*dense, *names[len(dense) + turn :: _CADENCE]] for turn in range(_CADENCE if sparse else 1)]
    frames = [_Frame(chosen) for chosen in turns]
    numbers = {name: index for index, name in enumerate(names)}
    columns = [np.array([numbers[name] for name in chosen]) for chosen in turns]
    with open_rows(path) as file:
        for first in range(0, rows, _BLOCK):
            curves = _curves(np.arange(first, min(first + _BLOCK, rows)), len(names), rows, seed)
            file.writelines(_lines(curves, first, frames, columns, start))
    return names


class _Frame:
    """The bytes of a row around its values."""

    def __init__(self, names: list[str]) -> None:
        self._parts = [b""] * (2 * len(names) + 1)
        self._parts[2::2] = [b"," + jsonl.encode(name)[:-1] + b":" for name in names[1:]] + [b',"producer":"orch"}\n']
        self._first = jsonl.encode(names[0])[:-1] + b":"

    def line(self, step: int, time: bytes, values: list[bytes]) -> bytes:
        parts = self._parts
        parts[0] = b'{"step":%d,"time":%b,%b' % (step, time, self._first)
        parts[1::2] = values
        return b"".join(parts)


def _lines(
    curves: npt.NDArray[np.float64],
    first: int,
    frames: list[_Frame],
    columns: list[npt.NDArray[np.int64]],
    start: float,
) -> Iterator[bytes]:
    import orjson

    for index in range(len(curves)):
        turn = (first + index) % len(frames)
        row = np.ascontiguousarray(curves[index, columns[turn]])
        values = orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
        step = first + index
        yield frames[turn].line(step, b"%.3f" % (start + 20.0 * step), values)


def _curves(steps: npt.NDArray[np.int64], keys: int, rows: int, seed: int) -> npt.NDArray[np.float64]:
    """Values [steps, keys]: each key saturates at a level of its own, with noise and rare spikes."""
    rng = np.random.default_rng([seed, 6, int(steps[0])])
    key = np.arange(keys)
    level = 10.0 ** (key % 5 - 2) * (1 + key % 7)
    rising = 1.0 - 0.8 * np.exp(-4.0 * steps / max(rows, 1))
    values = np.outer(rising, level) * rng.normal(1.0, 0.05, (len(steps), keys))
    values[rng.random(values.shape) < 2e-4] *= 8.0
    return np.round(values, 6)

"""Fewer points of a series for the same picture: its extremes and everything that is not finite are kept."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def decimate(values: NDArray[np.float64], points: int) -> NDArray[np.intp]:
    """Which of ``values`` to keep, ascending: about ``points`` of the finite ones, or all when there are no more.

    The finite values are cut into runs of equal length, of each of which the lowest and the highest stay, as do the
    first and the last of all. Of the non-finite ones all stay, up to ``points``; of more than that, evenly spread ones.
    """
    if len(values) <= points:
        return np.arange(len(values))
    regular = np.isfinite(values)
    finite, others = np.flatnonzero(regular), np.flatnonzero(~regular)
    kept = [_spread(others, max(points, 2))]
    if len(finite) > points:
        runs = max((points - 2) // 2, 1)
        length = -(-len(finite) // runs)
        padded = finite[np.minimum(np.arange(runs * length), len(finite) - 1)].reshape(runs, length)
        heights = values[padded]
        each = np.arange(runs)
        kept += [padded[each, heights.argmin(axis=1)], padded[each, heights.argmax(axis=1)], finite[[0, -1]]]
    else:
        kept.append(finite)
    return np.unique(np.concatenate(kept))


def _spread(numbers: NDArray[Any], count: int) -> NDArray[Any]:
    if len(numbers) <= count:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, count).round().astype(np.intp)]

"""From rewards to advantages: group-relative, ``A_i = r_i - mean(r)`` (GRPO without division by the deviation).

The group is made of the trainable traces of a group's clean episodes. An episode that failed, ran into its deadline,
took no turn or was scored with something that is not a number is left out whole: none of its traces trains, and its
reward does not enter the mean of the others. Where fewer than two traces remain there is nothing to compare, so there
is no signal: their advantages are zero. Left out: length shaping and the other algorithms of the contract.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_RELATIVE_ZERO = 1e-9
"""An advantage this small against the largest reward is rounding, not signal."""


def grpo(rewards: Sequence[float]) -> NDArray[np.float64]:
    """Advantages of one group, in the order of ``rewards`` (finite). They sum to zero.

    >>> grpo([1.0, 0.0, 0.0, 0.0]).tolist()
    [0.75, -0.25, -0.25, -0.25]
    """
    values = np.asarray(rewards, dtype=np.float64)
    if values.size < 2:
        return np.zeros_like(values)
    advantages: NDArray[np.float64] = values - values.mean()
    # The mean of equal rewards can differ from them in the last bit, which must not train a group without signal.
    advantages[np.abs(advantages) <= _RELATIVE_ZERO * np.abs(values).max()] = 0.0
    return advantages

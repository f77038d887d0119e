"""The last step before text leaves: whatever files held becomes harmless to print, and secrets are masked.

What models, environments and logs wrote is data. Terminal escapes and control characters go, a line stays one line, and
what looks like a secret is replaced. Every face of the verdict passes through here.
"""

import math
from collections.abc import Iterable
from typing import Any

from prl.text.secrets import mask_secrets
from prl.text.terminal import one_line

WIDTH = 400
"""Characters kept of one piece of text."""


def safe(text: str, width: int = WIDTH) -> str:
    """One harmless line of at most ``width`` characters."""
    # Masked before it is cut: half a secret would not be recognised, and after escapes are gone that would hide it.
    return one_line(mask_secrets(one_line(text, 64 * width)), width)


def safe_keys(keys: Iterable[object]) -> list[str]:
    """Keys made safe that stay as distinct as they were: one that looks like an earlier one gets a number."""
    taken: dict[str, None] = {}
    for key in keys:
        text = shown = safe(str(key))
        number = 1
        while shown in taken:
            number += 1
            shown = f"{text} ({number})"
        taken[shown] = None
    return list(taken)


def safe_tree(value: Any) -> Any:
    """A tree of JSON values with every text and every key made safe, and null for what JSON has no number for."""
    if isinstance(value, str):
        return safe(value, 10 * WIDTH)
    if isinstance(value, dict):
        return {key: safe_tree(entry) for key, entry in zip(safe_keys(value), value.values(), strict=True)}
    if isinstance(value, list | tuple):
        return [safe_tree(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""Key numbers and moments as words, the same in the terminal and in STATUS.md."""

import datetime as dt
import math

from prl.text.human import format_duration, format_percent
from prl.watch.numbers import SPIKE
from prl.watch.verdict import Number

_SHARES = (
    "is_truncated/mean",
    "has_error/mean",
    "kv_cache_usage_perc/max",
    "gpu_cache_usage_perc/max",
    "is_masked/mean",
)
_FLAGGED = ("optim/grad_norm", "mismatch_kl/all/mean")
_DURATIONS = ("time/",)


def number_words(number: Number) -> str:
    """``grad_norm 4.1 (spike: usually 0.21)``, ``truncated 4.7%``, ``loss not a number (step 12)``."""
    if number.value is None:
        return f"{number.label} not a number (step {number.step})"
    text = f"{number.label} {value_words(number.key, number.value)}"
    if number.key in _FLAGGED and number.usual is not None and number.value > SPIKE * number.usual > 0:
        text += f" (spike: usually {value_words(number.key, number.usual)})"
    return text


def value_words(key: str, value: float) -> str:
    """A value in the unit of its key: a share, a duration or a plain number of four digits."""
    if key.endswith(_SHARES):
        return format_percent(value)
    if key.startswith(_DURATIONS) or key.startswith("env_server/"):
        return format_duration(value)
    if value == round(value) and abs(value) < 1e6:
        return f"{value:.0f}"
    digits = 4 if abs(value) < 1000 else max(4, math.ceil(math.log10(abs(value))))
    return f"{value:.{digits}g}"


def step_words(step: int | None, max_steps: int | None, *, endless: bool = False) -> str:
    """``12 / 40``; ``?`` where nothing says, ``∞`` for a run that was configured to have no end."""
    last = max_steps if max_steps is not None else "∞" if endless else "?"
    return f"{'?' if step is None else step} / {last}"


def utc_words(time: float) -> str:
    """``YYYY-MM-DD HH:MM UTC``."""
    return _moment(time, "%Y-%m-%d %H:%M UTC")


def clock_words(time: float | None, *, exact: bool = True) -> str:
    """``HH:MM:SS UTC``, with ``~`` where the date was inferred."""
    if time is None:
        return "time unknown"
    return f"{'' if exact else '~'}{_moment(time, '%m-%d %H:%M:%S UTC')}"


def _moment(time: float, form: str) -> str:
    """A moment in UTC. Files hold any number as a time; beyond what a calendar has it is shown as it stands."""
    try:
        return dt.datetime.fromtimestamp(time, dt.UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return f"time {time:g}"

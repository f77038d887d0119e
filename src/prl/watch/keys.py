"""Which series facts keep, and how many points of each: what rules and the key numbers look at, and nothing else.

A metric's name is an opaque string that is compared and cut, never interpreted as a pattern or a path. What rules
replay (stability, rates, times, disk) keeps enough points for a median over the attempt's recent past and for a change
to be told from a spike; of everything else the last few will do.
"""

from functools import lru_cache

from prl.rundir.metrics.names import RENAMED, newer_name
from prl.rundir.metrics.reader import EVALUATION, TRAINER

REPLAYED = 120
"""Points kept of series over which rules are replayed."""
LAST = 20
"""Points kept of the others."""

STABILITY_KEYS = frozenset(
    {"entropy/all/mean", "mismatch_kl/all/mean", "optim/grad_norm", "loss/mean", "is_masked/mean"}
)
"""Keys that the trainer writes at every step: one that is missing from a step's rows was not a number."""

_TRAINER_TIMES = frozenset(
    f"time/{name}"
    for name in ("step", "wait_for_batch", "load_data", "forward_backward", "broadcast_weights", "save_ckpt")
)
_TRAINER_OTHERS = frozenset({"perf/throughput", "perf/peak_memory", "perf/mfu", "optim/lr", "kl_ent_ratio/mean"})
_ORCHESTRATOR_TIMES = frozenset(f"time/{name}" for name in ("step", "wait_for_policy", "save_ckpt", "pack"))
_RATES = frozenset(
    {
        "has_error",
        "is_truncated",
        "is_timeout",
        "cancelled",
        "dispatch_failure",
        "solved_none",
        "solved_all",
        "solved_some",
        "is_trainable",
        "is_admitted",
    }
)
_PHASES = frozenset({"scoring", "setup", "finalize", "agent", "total"})
_AGENT_PARTS = frozenset({"model", "harness"})
_PRESSURE = frozenset(
    {
        "kv_cache_usage_perc",
        "num_requests_running",
        "num_requests_waiting",
        "num_preemptions_total",
        "num_preemptions_total:rate",
        "generation_tokens_total:rate",
        "prompt_tokens_total:rate",
    }
)
_AGGREGATES = ("agg", "prefill", "decode")
_LAG = frozenset({"median", "mean", "p90", "p99", "max", "n"})
_SERVER = frozenset({"workers", "restarts", "active"})
_TIMED_FAMILIES = ("dispatcher", "concurrency", "watcher", "off_policy", "progress")


@lru_cache(maxsize=8192)
def kept_points(producer: str, key: str) -> int:
    """How many of a series' last points facts keep; 0: none."""
    parts = newer_name(key).split("/")
    if producer == TRAINER:
        return _of_trainer("/".join(parts), parts)
    if key.startswith(EVALUATION):
        return LAST if _of_evaluation(parts) else 0
    match parts:
        case ["train", *rest]:
            return _of_episodes(rest)
        case ["time", _]:
            return REPLAYED if key in _ORCHESTRATOR_TIMES else 0
        case ["inference", where, name, statistic]:
            kept = where in _AGGREGATES and name in _PRESSURE and statistic in ("max", "sum", "mean")
            return LAST if kept else 0
        case ["event_loop_lag", name]:
            return LAST if name in _LAG else 0
        case ["env_server", *_, last]:
            return LAST if last in _LAG or last in _SERVER else 0
        case ["off_policy", *_]:
            return REPLAYED
        case ["batch", _]:
            return LAST
    return LAST if parts[0] in _TIMED_FAMILIES else 0


def importance(producer: str, key: str) -> tuple[int, str, str]:
    """What to sort names by so that those which a run of many environments leaves out are the least important."""
    points = kept_points(producer, key)
    own = producer == TRAINER or not key.startswith(("train/", EVALUATION)) or key.startswith("train/agg/")
    return (0 if own else 1 if points == REPLAYED else 2), producer, key


def older_names(key: str) -> list[str]:
    """The names under which older writers have a key."""
    framed = f"/{key}/"
    return [framed.replace(f"/{newer}/", f"/{older}/")[1:-1] for older, newer in RENAMED if f"/{newer}/" in framed]


def _of_trainer(key: str, parts: list[str]) -> int:
    if key in STABILITY_KEYS or key in _TRAINER_TIMES or parts[0] == "system":
        return REPLAYED
    if parts[0] in ("entropy", "mismatch_kl") and parts[-1] == "mean":
        return LAST
    return LAST if key in _TRAINER_OTHERS else 0


def _of_evaluation(parts: list[str]) -> bool:
    if parts[-1].startswith(("avg@", "pass@")):
        return "effective" in parts
    return parts[-2:] in (["has_error", "mean"], ["is_truncated", "mean"]) or parts[-1] == "policy_version"


def _of_episodes(parts: list[str]) -> int:
    """Of ``train/<env>/<subset>/...``, whose environment and agents may be called anything."""
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last in _RATES or (before in _RATES and last == "mean"):
        return REPLAYED
    if before in ("error", "dispatch_failure"):
        return REPLAYED
    if before == "stop_condition":
        return LAST
    if last not in ("mean", "max", "p90"):
        return 0
    if before == "reward":
        return REPLAYED if last == "mean" else 0
    if "timing" in parts:
        return LAST if _is_phase(parts) and last != "p90" else 0
    if last == "mean" and _beside_reward(parts):
        return REPLAYED
    if before in ("num_total_tokens", "num_output_tokens", "num_turns"):
        return LAST
    return LAST if last == "mean" and "metrics" in parts and "effective" in parts else 0


def _beside_reward(parts: list[str]) -> bool:
    """Of ``<env>/effective/...``: what a reward is made of, and how long the answers are that get it."""
    if parts[1:2] != ["effective"]:
        return False
    return parts[3:4] == ["rewards"] or parts[2:] == ["num_output_tokens", "mean"]


def _is_phase(parts: list[str]) -> bool:
    below = parts[parts.index("timing") + 1 : -1]
    return (len(below) == 1 and below[0] in _PHASES) or (below[:1] == ["agent"] and below[-1] in _AGENT_PARTS)

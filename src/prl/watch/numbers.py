"""The key numbers of a check-in, in the runbook's three groups, picked from the recorded series.

A metric's name is an opaque string that is compared and cut, never interpreted as a pattern or a path.
"""

from collections.abc import Callable, Iterable

from prl.watch.facts import Facts, Series
from prl.watch.verdict import Number, Numbers
from prl.watch.view import usual

SPIKE = 10.0
"""A value above this many times its usual one is flagged (gradient norm, mismatch KL). A flag, not a finding."""

_MAX_ROWS = 12
"""Numbers shown of one family: a run with many environments has more."""

_STABILITY = (
    ("entropy", "entropy/all/mean"),
    ("mismatch_kl", "mismatch_kl/all/mean"),
    ("grad_norm", "optim/grad_norm"),
    ("loss", "loss/mean"),
    ("is_masked", "is_masked/mean"),
)
_TRAINER_TIMES = (
    ("trainer step", "time/step"),
    ("wait for batch", "time/wait_for_batch"),
    ("tokens/s", "perf/throughput"),
)
_ORCHESTRATOR_TIMES = (("orchestrator step", "time/step"), ("wait for policy", "time/wait_for_policy"))
_PRESSURE = (
    ("KV cache", ("inference/agg/kv_cache_usage_perc/max", "inference/agg/gpu_cache_usage_perc/max")),
    ("running", ("inference/agg/num_requests_running/sum",)),
    ("waiting", ("inference/agg/num_requests_waiting/sum",)),
)


def key_numbers(facts: Facts) -> Numbers:
    """The newest value of each key number, beside what is usual in this attempt."""
    orchestrator = [series for series in facts.series if series.producer != "trainer"]
    trainer = [series for series in facts.series if series.producer == "trainer"]
    return Numbers(
        progress=_progress(orchestrator),
        stability=_named(trainer, _STABILITY),
        performance=[
            *_named(trainer, _TRAINER_TIMES),
            *_named(orchestrator, _ORCHESTRATOR_TIMES),
            *_family(orchestrator, _env_lag),
            *_pressure(orchestrator),
        ],
    )


def _progress(series: list[Series]) -> list[Number]:
    rewards = _family(series, _agg_reward)
    of_envs = _family(series, _env_reward)
    envs = {number.key.split("/")[1] for number in of_envs}
    # Of one environment, the reward of all environments together is its own.
    rewards += of_envs if len(envs) > 1 or not rewards else []
    families = (_length, _truncation, _errors, _eval_score, _env_metric)
    return rewards + [number for label in families for number in _family(series, label)]


def _family(series: Iterable[Series], label: Callable[[list[str]], str | None]) -> list[Number]:
    named = [(text, one) for one in series if (text := label(one.key.split("/"))) is not None]
    return [_number(text, one) for text, one in sorted(named, key=lambda pair: pair[0])[:_MAX_ROWS]]


def _named(series: Iterable[Series], names: Iterable[tuple[str, str]]) -> list[Number]:
    by_key = {one.key: one for one in series}
    return [_number(label, by_key[key]) for label, key in names if key in by_key]


def _pressure(series: Iterable[Series]) -> list[Number]:
    by_key = {one.key: one for one in series}
    found = ((label, next((key for key in keys if key in by_key), None)) for label, keys in _PRESSURE)
    return [_number(label, by_key[key]) for label, key in found if key is not None]


def _number(label: str, series: Series) -> Number:
    return Number(label, series.last, series.last_step, series.producer, series.key, usual(series))


# Each takes a key's parts and gives its label when the key is of that family.


def _agg_reward(parts: list[str]) -> str | None:
    match parts:
        case ["train", "agg", "effective", *agent, "reward", "mean"] if agent:
            return f"reward {'/'.join(agent)}" if agent != ["agent"] else "reward"
        case ["train", "agg", "all", *agent, "reward", "mean"] if agent:
            return f"reward of all {'/'.join(agent)}" if agent != ["agent"] else "reward of all"
    return None


def _env_reward(parts: list[str]) -> str | None:
    match parts:
        case ["train", env, "effective", *agent, "reward", "mean"] if env != "agg" and agent:
            return f"reward {env}" + (f" {'/'.join(agent)}" if agent != ["agent"] else "")
    return None


def _length(parts: list[str]) -> str | None:
    return "seq_len" if parts == ["train", "agg", "effective", "num_total_tokens", "mean"] else None


def _truncation(parts: list[str]) -> str | None:
    match parts:
        case ["train", "agg", "effective", *agent, "is_truncated", "mean"]:
            return "truncated" + (f" {'/'.join(agent)}" if agent not in ([], ["agent"]) else "")
    return None


def _errors(parts: list[str]) -> str | None:
    return "errors" if parts == ["train", "agg", "all", "has_error", "mean"] else None


def _eval_score(parts: list[str]) -> str | None:
    match parts:
        case ["eval", env, "effective", *_, score] if score.startswith(("avg@", "pass@")):
            return f"eval {env} {score}"
    return None


def _env_metric(parts: list[str]) -> str | None:
    match parts:
        case ["train", env, "effective", _, "metrics", *name, "mean"] if env != "agg" and name:
            return f"{env} {'/'.join(name)}"
    return None


def _env_lag(parts: list[str]) -> str | None:
    match parts:
        case ["env_server", env, *lag, "p99"] if lag:
            return f"env lag p99 {env}"
    return None

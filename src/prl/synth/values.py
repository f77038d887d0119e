"""The values of a run's metrics: what a step's episodes come to, and plausible curves of what nobody measured.

Names are the contract's. Curves are smooth with noise and a few spikes, and belong to their step: writing a run twice
gives the same values.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from prl.synth.course import Course, Step
from prl.synth.episodes import Episode
from prl.synth.shape import RunShape
from prl.synth.traces import LOST, OK, TIMEOUT, TRUNCATED, failure_types

Metrics = dict[str, float]

_COUNTS: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "num_total_tokens": lambda row: row["input_tokens"] + row["output_tokens"],
    "num_input_tokens": lambda row: row["input_tokens"],
    "num_output_tokens": lambda row: row["output_tokens"],
    "num_turns": lambda row: row["turns"],
    "num_branches": lambda row: row["branches"],
}
_SPIKE_EVERY = 37
"""Steps between two spikes of gradient norm and mismatch KL."""
_GIB = 1024.0


def spread(prefix: str, values: Sequence[float]) -> Metrics:
    """``<prefix>/{mean,max,min,p10,p90}``; nothing of nothing."""
    if not len(values):
        return {}
    array = np.asarray(values, dtype=np.float64)
    low, high = np.percentile(array, (10, 90)).tolist()
    names = ("mean", "max", "min", "p10", "p90")
    numbers = (float(array.mean()), float(array.max()), float(array.min()), low, high)
    return {f"{prefix}/{name}": value for name, value in zip(names, numbers, strict=True)}


def orchestrator_values(
    shape: RunShape, step: Step, episodes: Sequence[Episode], shipped: Sequence[Episode]
) -> Metrics:
    """The row of a shipped step."""
    metrics: Metrics = {}
    names = {index: environment.name for index, environment in enumerate(shape.environments)}
    for head, members, trained in _scopes("train", names, episodes, shipped):
        metrics |= _subset(f"{head}/all", members, everything=True)
        metrics |= _subset(f"{head}/effective", trained, everything=False)
    for index, name in names.items():
        share = sum(episode.environment == index for episode in episodes) / max(len(episodes), 1)
        metrics |= {f"batch/{name}": share, f"curriculum/{name}/admission_rate": 1.0}
    tokens = sum(episode.index["input_tokens"] + episode.index["output_tokens"] for episode in episodes)
    noise = _noise(shape, step, 5)
    return metrics | {
        "progress/tokens": tokens,
        "progress/input_tokens": sum(episode.index["input_tokens"] for episode in shipped),
        "progress/output_tokens": sum(episode.index["output_tokens"] for episode in shipped),
        "progress/rollouts": len(episodes),
        "progress/tasks": len({episode.group for episode in episodes}),
        "progress/total_tokens": tokens * (step.number - 1),
        "progress/total_rollouts": len(episodes) * (step.number - 1),
        "progress/total_tasks": len({episode.group for episode in episodes}) * (step.number - 1),
        "time/step": step.seconds,
        "time/pack": 0.02 + 0.01 * noise[0],
        "time/save_ckpt": 0.4 if step.number % shape.checkpoint_interval == 0 else 0.0,
        "time/wait_for_policy": 0.05 * step.seconds * noise[1],
        "off_policy/mean": min(step.number - 1, 1) * (0.8 + 0.4 * noise[2]),
        "off_policy/max": float(min(step.number - 1, 2)),
        "off_policy/in_flight/mean": min(step.number - 1, 1) * 0.6 * noise[3],
        "off_policy/in_flight/max": float(min(step.number - 1, 1)),
        "off_policy/in_queue/mean": min(step.number - 1, 1) * 0.3 * noise[4],
        "off_policy/in_queue/max": float(min(step.number - 1, 1)),
        "off_policy/dropped": 0.0,
    }


def evaluation_values(shape: RunShape, version: int, episodes: Sequence[Episode]) -> Metrics:
    """The row of an evaluation of one policy version."""
    names = {index: environment.name for index, environment in enumerate(shape.environments)}
    metrics: Metrics = {}
    clean = [episode for episode in episodes if episode.outcome in (OK, TRUNCATED, TIMEOUT)]
    for head, members, effective in _scopes("eval", names, episodes, clean):
        if head == "eval/agg":
            continue
        metrics |= _subset(f"{head}/all", members, everything=True)
        metrics |= _subset(f"{head}/effective", effective, everything=False)
        metrics[f"{head}/policy_version"] = float(version)
        for agent, traces in _by_agent(effective).items():
            metrics[f"{head}/effective/{agent}/avg@1"] = _mean(trace["reward"] or 0.0 for trace in traces)
            metrics[f"{head}/effective/{agent}/pass@1"] = _mean(_score(trace, "correct") for trace in traces)
    return metrics


def pipeline_values(shape: RunShape, step: Step, at: float) -> list[Metrics]:
    """The two rows that are keyed by time: the orchestrator's own state, and what the engines report."""
    rng = np.random.default_rng([shape.seed, 5, int(at)])
    noise = rng.random(12)
    inflight = round(shape.rollouts * (1.2 + 0.3 * noise[0]))
    version = float(max(step.number - 1, 0))
    state = {
        "dispatcher/inflight/train": float(inflight),
        "dispatcher/inflight/eval": 0.0,
        "dispatcher/queued/eval": 0.0,
        "dispatcher/mode": 0.0,
        "dispatcher/off_policy/mean": 0.5 * noise[1],
        "dispatcher/off_policy/max": 1.0,
        "dispatcher/cancelled/train": 0.0,
        "dispatcher/errored/train": float(noise[2] < shape.error_rate),
        "watcher/policy_version": version,
        "watcher/update_count": version,
        "watcher/last_update_weights_time": 0.8 + 0.2 * noise[3],
        "watcher/last_wait_for_ckpt_time": 0.3 * noise[4],
        "concurrency/max_inflight": float(2 * shape.rollouts),
        "concurrency/turnover": 1.0 + noise[5],
        "concurrency/capacity": float(4 * shape.rollouts),
        "concurrency/signal": 0.0,
        **{
            f"event_loop_lag/{name}": factor * (0.6 + 0.8 * noise[6]) * 1e-3
            for name, factor in (("min", 0.1), ("mean", 0.8), ("median", 0.6), ("p90", 2.0), ("p99", 4.0), ("max", 9.0))
        },
        "event_loop_lag/n": 1000.0,
    }
    engines: Metrics = {}
    running = inflight * (0.5 + 0.2 * noise[7])
    reported = {
        "kv_cache_usage_perc": 0.35 + 0.2 * noise[8],
        "num_requests_running": running,
        "num_requests_waiting": 2.0 * noise[9],
        "num_preemptions_total": 0.0,
        "num_preemptions_total:rate": 0.0,
        "generation_tokens_total:rate": 900.0 + 300.0 * noise[10],
        "prompt_tokens_total:rate": 400.0 + 100.0 * noise[11],
        "prefix_cache_hit_rate": 0.6,
    }
    for name, value in reported.items():
        engines[f"inference/server0.0/{name}"] = value
        engines |= {f"inference/agg/{name}/{kind}": value for kind in ("min", "max", "sum", "mean", "median")}
    engines["inference/agg/prefix_cache_hit_rate/pooled"] = 0.6
    return [state, engines]


def trainer_rows(shape: RunShape, course: Course, step: Step) -> list[Metrics]:
    """The trainer's five rows of a step: performance, optimiser, tensors, times, disk."""
    noise = _noise(shape, step, 12)
    progress = course.skill(step.number)
    spike = 4.0 if step.number % _SPIKE_EVERY == 0 else 1.0
    entropy = 1.4 - 0.9 * progress + 0.05 * noise[0]
    kl = (0.0012 + 0.0016 * progress + 0.0006 * noise[1]) * spike
    loss = 0.004 * (noise[2] - 0.5) * spike
    if step.number in shape.nonfinite_steps:
        loss = math.nan
    compute = 0.7 * shape.step_seconds * (0.9 + 0.2 * noise[3])
    times = {
        "wait_for_batch": max(0.9 * step.seconds - compute, 0.1),
        "load_data": 0.1 + 0.05 * noise[4],
        "forward_backward": compute,
        "broadcast_weights": 0.9 + 0.3 * noise[5],
        "save_ckpt": 2.5 if step.number % shape.checkpoint_interval == 0 else 0.0,
    }
    throughput = 15_000.0 * (0.9 + 0.2 * noise[6])
    tensors: Metrics = {"loss/mean": loss, "loss/median": loss, "loss/std": 0.01 * noise[7]}
    tensors |= {"loss/min": loss - 0.02, "loss/max": loss + 0.02}
    for scope in ("all", *(environment.name for environment in shape.environments)):
        tensors |= {
            f"entropy/{scope}/{name}": entropy * scale for name, scale in (("mean", 1), ("std", 0.4), ("max", 3))
        }
        tensors |= {f"mismatch_kl/{scope}/{name}": kl * scale for name, scale in (("mean", 1), ("std", 6), ("max", 80))}
    masked = 0.002 + 0.002 * noise[8]
    tensors |= {
        "is_masked/mean": masked,
        "is_masked/max": 6 * masked,
        "masked_mismatch_kl/mean": 40 * kl,
        "masked_mismatch_kl/max": 90 * kl,
        "unmasked_mismatch_kl/mean": 0.8 * kl,
        "unmasked_mismatch_kl/max": 3 * kl,
        "kl_ent_ratio/mean": kl / entropy,
    }
    used = 300.0 + 0.002 * step.number
    return [
        {
            "perf/throughput": throughput,
            "perf/throughput_per_gpu": throughput / shape.ranks,
            "perf/mfu": 22.0 + 4.0 * noise[9],
            "perf/peak_memory": 40.0 + 0.4 * noise[10],
        },
        {"optim/lr": 1e-6, "optim/grad_norm": (0.18 + 0.1 * noise[11]) * spike},
        tensors,
        {"time/step": sum(times.values()) + 0.05} | {f"time/{name}": value for name, value in times.items()},
        {
            "system/ckpt_disk_free_gib": 2 * _GIB - used,
            "system/ckpt_disk_used_gib": used,
            "system/ckpt_disk_total_gib": 2 * _GIB,
            "system/ckpt_disk_free_ratio": 1.0 - used / (2 * _GIB),
        },
    ]


def sft_rows(shape: RunShape, course: Course, step: Step) -> list[Metrics]:
    """The supervised trainer's rows of a step."""
    noise = _noise(shape, step, 4)
    loss = 2.4 - 1.6 * course.skill(step.number) + 0.05 * noise[0]
    if step.number in shape.nonfinite_steps:
        loss = math.nan
    rl = trainer_rows(shape, course, step)
    tokens = float(shape.rollouts * (shape.prompt_tokens + shape.answer_tokens))
    values = {"loss/mean": loss, "loss/perplexity": math.exp(loss), "loss/nan_count": float(math.isnan(loss))}
    values |= {
        "progress/epoch": step.number / 10,
        "progress/num_samples": float(shape.rollouts * step.number),
        "progress/num_tokens": tokens * step.number,
    }
    if shape.eval_interval and step.number % shape.eval_interval == 0:
        values |= {"val/loss": loss + 0.1, "val/perplexity": math.exp(loss + 0.1)}
    return [rl[0], rl[1], values, rl[3], rl[4]]


def _scopes(
    kind: str, names: Mapping[int, str], episodes: Sequence[Episode], effective: Sequence[Episode]
) -> Iterable[tuple[str, Sequence[Episode], Sequence[Episode]]]:
    yield f"{kind}/agg", episodes, effective
    for index, name in names.items():
        mine = [episode for episode in episodes if episode.environment == index]
        if mine:
            yield f"{kind}/{name}", mine, [episode for episode in effective if episode.environment == index]


def _subset(head: str, episodes: Sequence[Episode], *, everything: bool) -> Metrics:
    metrics: Metrics = {}
    with_traces = [episode for episode in episodes if episode.outcome != LOST]
    for name, count in _COUNTS.items():
        metrics |= spread(f"{head}/{name}", [count(episode.index) for episode in with_traces])
    if everything:
        metrics[f"{head}/has_error/mean"] = _mean(not episode.index["ok"] for episode in with_traces)
        metrics[f"{head}/cancelled/mean"] = 0.0
        metrics[f"{head}/dispatch_failure/mean"] = _mean(episode.outcome == LOST for episode in episodes)
        lost = sum(episode.outcome == LOST for episode in episodes)
        metrics |= {f"{head}/dispatch_failure/EnvWorkerDied": float(lost)} if lost else {}
    for agent, traces in _by_agent(episodes).items():
        metrics |= _agent(f"{head}/{agent}", traces)
        if everything:
            failures = Counter(failure_types()[d.failure][0] for e in episodes for d in e.drafts
                               if d.agent == agent and not e.index["ok"])  # fmt: skip
            metrics |= {f"{head}/{agent}/error/{kind}": float(count) for kind, count in failures.items()}
            metrics[f"{head}/{agent}/has_error/mean"] = failures.total() / len(traces)
    flags = {"is_truncated": "truncated", "is_timeout": "timeout"}
    for agent in _by_agent(episodes):
        for name, column in flags.items():
            metrics[f"{head}/{agent}/{name}/mean"] = _mean(episode.index[column] for episode in with_traces)
        metrics[f"{head}/{agent}/is_completed/mean"] = _mean(episode.index["ok"] for episode in with_traces)
        metrics[f"{head}/{agent}/is_trainable/mean"] = _mean(episode.trains for episode in with_traces)
        metrics[f"{head}/{agent}/is_admitted/mean"] = 1.0
    return metrics


def _agent(head: str, traces: Sequence[Mapping[str, Any]]) -> Metrics:
    columns: dict[str, list[float]] = defaultdict(list)
    for trace in traces:
        columns["reward"].append(trace["reward"] or 0.0)
        for group in ("metrics", "timing"):
            for name, value in trace[group].items():
                columns[f"{group}/{name}"].append(value)
        for name in trace["rewards"]:
            columns[f"rewards/{name}"].append(_score(trace, name))
    metrics: Metrics = {}
    for name, values in columns.items():
        metrics |= spread(f"{head}/{name}", values)
    return metrics


def _by_agent(episodes: Iterable[Episode]) -> dict[str, list[dict[str, Any]]]:
    agents: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for episode in episodes:
        for trace in episode.values["traces"]:
            agents[trace["agent"]].append(trace)
    return agents


def _score(trace: Mapping[str, Any], name: str) -> float:
    """A weighted reward; 0 where scoring did not reach it."""
    reward = trace["rewards"].get(name)
    return float(reward["score"] * reward["weight"]) if reward else 0.0


def _mean(values: Iterable[float]) -> float:
    array = np.fromiter(values, dtype=np.float64)
    return float(array.mean()) if array.size else 0.0


def _noise(shape: RunShape, step: Step, count: int) -> list[float]:
    noise: list[float] = np.random.default_rng([shape.seed, 4, step.attempt, step.number]).random(count).tolist()
    return noise

"""The metrics row of a shipped step, in the names of the run contract.

``train/<agg or env>/<all or effective>/...``: *all* is everything that ended since the previous ship, *effective* what
was shipped. Distributions are mean, max, min and the 10th and 90th percentile (linearly interpolated). A distribution
of nothing emits nothing; a share of nothing is 0. Non-finite metrics of an environment are passed on: the monitor
names and drops them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from prl.orchestrator.batcher import Batch, QueuedTrace
from prl.orchestrator.episodes import Episode, Outcome, TraceFacts
from prl.orchestrator.groups import Group

Metrics = dict[str, float]

_COUNTS = ("num_total_tokens", "num_input_tokens", "num_output_tokens", "num_turns", "num_branches")


def batch_metrics(batch: Batch) -> Metrics:
    """Everything under ``train/``, ``off_policy/`` and ``batch/`` for one shipped step."""
    groups = batch.window.groups
    envs = sorted({group.source.name for group in groups} | {item.episode.source for item in batch.traces})
    metrics = _scope("train/agg", groups, batch.traces)
    for env in envs:
        if len(envs) == 1:
            metrics |= {f"train/{env}{key.removeprefix('train/agg')}": value for key, value in metrics.items()}
        else:
            mine = [group for group in groups if group.source.name == env]
            metrics |= _scope(f"train/{env}", mine, [item for item in batch.traces if item.episode.source == env])
    return metrics | _off_policy(batch) | _shares(batch, envs)


def spread(prefix: str, columns: Mapping[str, Sequence[float]]) -> Metrics:
    """``<prefix>/<column>/{mean,max,min,p10,p90}`` of each column; an empty column emits nothing.

    Columns of one length are computed together.
    """
    by_length: dict[int, list[str]] = defaultdict(list)
    for name, values in columns.items():
        by_length[len(values)].append(name)
    metrics: Metrics = {}
    for length, names in by_length.items():
        if not length:
            continue
        table = np.array([columns[name] for name in names], dtype=np.float64)
        low, high = np.percentile(table, (10, 90), axis=1)
        statistics = zip(names, table.mean(1), table.max(1), table.min(1), low, high, strict=True)
        for name, mean, largest, smallest, p10, p90 in statistics:
            head = f"{prefix}/{name}"
            metrics[f"{head}/mean"] = float(mean)
            metrics[f"{head}/max"] = float(largest)
            metrics[f"{head}/min"] = float(smallest)
            metrics[f"{head}/p10"] = float(p10)
            metrics[f"{head}/p90"] = float(p90)
    return metrics


def share(flags: Iterable[bool]) -> float:
    """The share of true ones; 0 of nothing."""
    values = np.fromiter(flags, dtype=np.bool_)
    return float(values.mean()) if values.size else 0.0


def _scope(prefix: str, groups: Sequence[Group], shipped: Sequence[QueuedTrace]) -> Metrics:
    episodes = [episode for group in groups for episode in group.episodes]
    admitted = {id(trace): group.admitted for group in groups for episode in group.episodes for trace in episode.traces}
    metrics = _all_episodes(f"{prefix}/all", episodes)
    cancelled = {id(trace) for episode in episodes if episode.outcome is Outcome.CANCELLED for trace in episode.traces}
    for agent, traces in _by_agent(trace for episode in episodes for trace in episode.traces).items():
        head = f"{prefix}/all/{agent}"
        metrics |= _agent(head, traces, [admitted[id(trace)] for trace in traces])
        metrics[f"{head}/has_error/mean"] = share(trace.error is not None for trace in traces)
        metrics[f"{head}/cancelled/mean"] = share(id(trace) in cancelled for trace in traces)
        for kind, count in Counter(trace.error for trace in traces if trace.error is not None).items():
            metrics[f"{head}/error/{kind}"] = count
        metrics |= _solved(head, agent, groups)

    shipped_by_episode: dict[int, list[TraceFacts]] = defaultdict(list)
    for item in shipped:
        shipped_by_episode[id(item.episode)].append(item.trace)
    metrics |= _episode_counts(f"{prefix}/effective", list(shipped_by_episode.values()))
    for agent, traces in _by_agent(item.trace for item in shipped).items():
        metrics |= _agent(f"{prefix}/effective/{agent}", traces, [True] * len(traces))
    return metrics


def _all_episodes(prefix: str, episodes: Sequence[Episode]) -> Metrics:
    arrived = [episode for episode in episodes if episode.outcome is not Outcome.FAILED]
    failed = [episode for episode in episodes if episode.outcome is Outcome.FAILED]
    metrics = _episode_counts(prefix, [episode.traces for episode in arrived if episode.traces])
    metrics[f"{prefix}/has_error/mean"] = share(episode.outcome is Outcome.ERRORED for episode in arrived)
    metrics[f"{prefix}/cancelled/mean"] = share(episode.outcome is Outcome.CANCELLED for episode in arrived)
    metrics[f"{prefix}/dispatch_failure/mean"] = share(episode.outcome is Outcome.FAILED for episode in episodes)
    for kind, count in Counter(episode.error or "Error" for episode in failed).items():
        metrics[f"{prefix}/dispatch_failure/{kind}"] = count
    return metrics


def _episode_counts(prefix: str, episodes: Sequence[Sequence[TraceFacts]]) -> Metrics:
    """Token, turn and branch counts, summed over an episode's traces."""
    rows = [np.sum([_counts(trace) for trace in traces], axis=0) for traces in episodes]
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), len(_COUNTS)).T
    return spread(prefix, dict(zip(_COUNTS, columns, strict=True)))


def _counts(trace: TraceFacts) -> tuple[int, int, int, int, int]:
    return trace.total_tokens, trace.input_tokens, trace.output_tokens, trace.turns, trace.branches


def _by_agent(traces: Iterable[TraceFacts]) -> dict[str, list[TraceFacts]]:
    agents: dict[str, list[TraceFacts]] = defaultdict(list)
    for trace in traces:
        agents[trace.agent].append(trace)
    return agents


def _agent(prefix: str, traces: Sequence[TraceFacts], admitted: Sequence[bool]) -> Metrics:
    """What both subsets say of one agent's traces (at least one)."""
    counts = np.array([_counts(trace) for trace in traces], dtype=np.float64).T
    columns: dict[str, Sequence[float]] = dict(zip(_COUNTS, counts, strict=True))
    columns["reward"] = [trace.reward for trace in traces]
    for name in traces[0].timing:
        columns[f"timing/{name}"] = [trace.timing[name] for trace in traces]
    for name in sorted({name for trace in traces for name in trace.metrics}):
        columns[f"metrics/{name}"] = [trace.metrics[name] for trace in traces if name in trace.metrics]
    for name in sorted({name for trace in traces for name in trace.rewards}):
        columns[f"rewards/{name}"] = [trace.rewards.get(name, 0.0) for trace in traces]
    metrics = spread(prefix, columns)
    metrics[f"{prefix}/is_truncated/mean"] = share(trace.truncated for trace in traces)
    metrics[f"{prefix}/is_completed/mean"] = share(trace.completed for trace in traces)
    metrics[f"{prefix}/is_timeout/mean"] = share(trace.timeout for trace in traces)
    metrics[f"{prefix}/is_trainable/mean"] = share(trace.has_signal for trace in traces)
    metrics[f"{prefix}/is_admitted/mean"] = share(admitted)
    stopped = Counter(trace.stop_condition for trace in traces if trace.stop_condition is not None)
    for condition, count in stopped.items():
        metrics[f"{prefix}/stop_condition/{condition}"] = count / stopped.total()
    metrics[f"{prefix}/stop_condition/generation_truncated"] = share(
        trace.length_stopped and trace.stop_condition != "prompt_too_long" for trace in traces
    )
    return metrics


def _solved(prefix: str, agent: str, groups: Sequence[Group]) -> Metrics:
    """Shares of groups whose clean traces of this agent all failed, all reached 1, or neither."""
    rewards = [
        np.array([trace.reward for trace in traces])
        for group in groups
        if (
            traces := [
                trace
                for episode in group.episodes
                if episode.outcome is Outcome.CLEAN
                for trace in episode.traces
                if trace.agent == agent
            ]
        )
    ]
    none = share(bool(values.sum() == 0) for values in rewards)
    solved = share(bool((values == 1).all()) for values in rewards)
    some = 1.0 - none - solved if rewards else 0.0
    return {f"{prefix}/solved_none": none, f"{prefix}/solved_all": solved, f"{prefix}/solved_some": some}


def _off_policy(batch: Batch) -> Metrics:
    """Staleness of the shipped episodes, in versions: total, and how it divides into flight and queue."""
    episodes = list({id(item.episode): item.episode for item in batch.traces}.values())
    start = np.array([episode.start_version for episode in episodes])
    end = np.array([episode.end_version for episode in episodes])
    total = np.maximum(0, batch.step - 1 - start)
    in_flight = np.minimum(total, end - start)
    metrics: Metrics = {"off_policy/dropped": batch.window.dropped}
    for name, values in (("", total), ("in_flight/", in_flight), ("in_queue/", total - in_flight)):
        metrics[f"off_policy/{name}mean"] = float(values.mean())
        metrics[f"off_policy/{name}max"] = float(values.max())
    return metrics


def _shares(batch: Batch, envs: Sequence[str]) -> Metrics:
    """Each environment's share of the window's traces, and how its groups fared."""
    groups = batch.window.groups
    traces = Counter[str]()
    for group in groups:
        traces[group.source.name] += sum(len(episode.traces) for episode in group.episodes)
    metrics: Metrics = {}
    for env in envs:
        metrics[f"batch/{env}"] = traces[env] / traces.total() if traces.total() else 0.0
        decided = [group for group in groups if group.source.name == env and not group.voided]
        if decided:
            metrics[f"curriculum/{env}/admission_rate"] = share(group.admitted for group in decided)
    return metrics

"""The orchestrator's console lines, in the words that the run contract fixes."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from prl.orchestrator.batcher import Batch, QueuedTrace
from prl.orchestrator.env_client import EnvRequestError
from prl.orchestrator.episodes import EMPTY_TRAJECTORY, Episode, Outcome, last_error
from prl.rundir.logs.console import success
from prl.text.human import format_duration, format_percent

logger = logging.getLogger(__name__)

_MESSAGE_LIMIT = 300
"""Characters of an error's message on a line; the record has all of it."""


def pipeline_line(
    queued: int,
    batch_size: int,
    queued_by_env: Mapping[str, int],
    buffered: int,
    inflight_by_env: Mapping[str, int],
) -> str:
    """How full the batch under collection is, and what is on its way."""
    inflight = sum(inflight_by_env.values())
    line = f"Train batch {queued}/{batch_size} ({format_percent(queued / batch_size)})"
    if any(queued_by_env.values()):
        line += f" ({_by_env(queued_by_env)})"
    if buffered:
        line += f" (+{buffered} buffered)"
    line += f"; {inflight} inflight episodes (train={inflight}, eval=0"
    return line + (f" | {_by_env(inflight_by_env)})" if inflight else ")")


def step_line(batch: Batch, seconds: float) -> str:
    """One shipped step, with a continuation line per environment where there are several.

    Reward, turns, branches and truncation are of the shipped traces; errors, cancellations and timeouts of everything
    that ended since the previous step.
    """
    trained, total = len(batch.traces), batch.cut
    envs = sorted({group.source.name for group in batch.window.groups} | {t.episode.source for t in batch.traces})
    head = f"Step {batch.step} | {format_duration(seconds):>7} | Reward {_mean_reward(batch.traces):.4f}"
    head += f" | Trainable {trained}/{total} ({format_percent(trained / total)})"
    lines = [f"{head} | {_facts(batch, batch.traces, list(batch.window.episodes))}"]
    if len(envs) > 1:
        width = max(map(len, envs))
        for env in envs:
            mine = [item for item in batch.traces if item.episode.source == env]
            episodes = [episode for episode in batch.window.episodes if episode.source == env]
            ratio = format_percent(len(mine) / trained)
            lines.append(
                f"╰─ {env:<{width}} | Ratio {ratio} | Reward {_mean_reward(mine):.4f} | {_facts(batch, mine, episodes)}"
            )
    return "\n".join(lines)


def log_step(batch: Batch, seconds: float, waited: float) -> None:
    """The lines of a shipped step: what it was, and the warnings it gives reason for."""
    success(logger, "%s", step_line(batch, seconds))
    active = seconds - waited
    if waited >= active > 0:
        logger.warning(
            "Orchestrator waited %s for policy updates, at least as long as its %s active. "
            "The trainer is the bottleneck: give it more devices or smaller batches",
            format_duration(waited),
            format_duration(active),
        )
    discarded_line(batch)
    if batch.traces and len(batch.traces) <= 0.1 * batch.cut:
        logger.warning(
            "Only %d/%d effective traces are trainable (%s) — most groups score the same on every attempt",
            len(batch.traces),
            batch.cut,
            format_percent(len(batch.traces) / batch.cut),
        )


def discarded_line(batch: Batch) -> None:
    """Warn when more than half of what ended in the window cannot train."""
    window = batch.window
    stale = window.count(Outcome.CANCELLED) + window.dropped
    errored = window.count(Outcome.ERRORED, Outcome.FAILED)
    no_signal = window.without_signal
    attempts = sum(1 for _ in window.episodes) + window.dropped
    discarded = stale + errored + no_signal
    if attempts and discarded > attempts / 2:
        logger.warning(
            "Discarded %d/%d episodes (%s): stale=%d, errored=%d, no_signal=%d. Stale ones aged out, errored ones "
            "failed in their environment or at the engine, the rest gave no advantage",
            discarded,
            attempts,
            format_percent(discarded / attempts),
            stale,
            errored,
            no_signal,
        )


def episode_errors(group_id: str, env: str, record: Mapping[str, Any], failed: EnvRequestError | None) -> None:
    """Say what went wrong in an episode; nothing where nothing did."""
    if failed is not None:
        message = _one_line(failed.message)
        logger.warning("Environment request failed in group %s (%s): %s(%r)", group_id, env, failed.type, message)
        return
    if record["ok"]:
        return
    errors = [(trace, error) for trace in record["traces"] if (error := last_error(trace)) is not None]
    for _, (kind, message) in errors:
        if kind == EMPTY_TRAJECTORY:
            logger.warning("Empty trajectory in group %s (%s)", group_id, env)
        else:
            logger.warning("Trace failed in group %s (%s) — %s: %s", group_id, env, kind, _one_line(message))
    if not errors and (error := last_error(record)) is not None:
        logger.warning("Episode task failed in group %s (%s): %s(%r)", group_id, env, error[0], _one_line(error[1]))


def _facts(batch: Batch, traces: Sequence[QueuedTrace], episodes: Sequence[Episode]) -> str:
    staleness = max((max(0, batch.step - 1 - item.episode.start_version) for item in traces), default=0)
    errored = [episode.outcome in (Outcome.ERRORED, Outcome.FAILED) for episode in episodes]
    cancelled = [episode.outcome is Outcome.CANCELLED for episode in episodes]
    timeouts = [any(trace.timeout for trace in episode.traces) for episode in episodes]
    return (
        f"Turns {_mean(item.trace.turns for item in traces):.1f}"
        f" | Branches {_mean(item.trace.branches for item in traces):.1f} | Max Off-Policy {staleness}"
        f" | Error {format_percent(_mean(errored))} | Cancelled {format_percent(_mean(cancelled))}"
        f" | Truncation {format_percent(_mean(item.trace.truncated for item in traces))}"
        f" | Timeout {format_percent(_mean(timeouts))}"
    )


def _mean_reward(traces: Sequence[QueuedTrace]) -> float:
    return _mean(item.trace.reward for item in traces)


def _mean(values: Iterable[float]) -> float:
    """The mean, 0 of nothing."""
    array = np.fromiter(values, dtype=np.float64)
    return float(array.mean()) if array.size else 0.0


def _by_env(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{env}={count}" for env, count in counts.items() if count)


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MESSAGE_LIMIT else flat[: _MESSAGE_LIMIT - 1] + "…"

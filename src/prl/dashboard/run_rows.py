"""A run as the list shows it, and as its own pages' header does: the listing and the newest judgement together.

Phase and health are the verdict's, never a guess from times of files: None until the run was judged. Left out: times
that pass by themselves ("3 min ago"), which are the page's.
"""

import time
from typing import Any

from prl.dashboard.judgement import Judgement
from prl.rundir.runs import RunInfo
from prl.watch.outward import safe, safe_tree
from prl.watch.verdict import INFO, LIVE, Verdict

_MAX_ATTEMPTS = 100
_MAX_CHECKPOINTS = 200


def run_row(run: RunInfo, judged: Judgement | None) -> dict[str, Any]:
    """The row of a run. ``judged`` None: not judged yet."""
    verdict = judged.verdict if judged is not None else None
    row = {
        "id": run.id,
        "name": run.name,
        "path": str(run.path),
        "dir": str(run.path.parent),
        "kind": run.kind,
        "model": run.model,
        "dataset": run.dataset,
        "train_envs": list(run.train_envs),
        "eval_envs": list(run.eval_envs),
        "step": run.step,
        "max_steps": run.max_steps,
        "endless": run.endless,
        "episodes": run.progress.episodes.value if run.progress.episodes else None,
        "planned_episodes": run.planned_episodes,
        "attempt": run.attempt,
        "attempts": list(run.attempts[-_MAX_ATTEMPTS:]),
        "created": run.created,
        "changed": run.changed or None,
        "last_progress": run.last_progress,
        "phase": verdict.phase if verdict else None,
        "health": verdict.health if verdict else None,
        "reason": verdict.reason if verdict else None,
        "finding": _first_finding(verdict),
        "findings": len(verdict.findings) if verdict else 0,
        "job": _job(run, judged),
        "host": judged.host if judged else None,
        "checkpoints": list(judged.checkpoints[-_MAX_CHECKPOINTS:]) if judged else [],
        "reward": judged.reward.to_json() if judged and judged.reward else None,
        "judged_at": verdict.as_of if verdict else None,
        "problems": list(run.problems),
    }
    # An id is given back as it is. Two masked names of directories may be the same; two ids never are.
    return {**safe_tree(row), "id": run.id}


def run_detail(run: RunInfo, judged: Judgement | None, *, reports: bool) -> dict[str, Any]:
    """The row, and what the header of a run's pages says beyond it. ``reports``: whether it has any."""
    verdict = judged.verdict if judged is not None else None
    row = run_row(run, judged)
    step = verdict.step if verdict is not None and verdict.step is not None else run.step
    pace = judged.seconds_per_step if judged is not None else None
    live = verdict is not None and verdict.phase in LIVE
    return {
        **row,
        "step": step,
        "elapsed": _elapsed(run, judged, live=live),
        "eta": _eta(step, run.max_steps, pace) if live else None,
        "seconds_per_step": pace,
        "stage": verdict.stage if verdict else None,
        "awaits": safe(verdict.awaits) if verdict and verdict.awaits else None,
        "since_progress": verdict.since_progress if verdict else None,
        "layout": run.layout,
        "missing": list(run.missing),
        "has": {
            **{name: name not in run.missing for name in ("metrics", "episodes", "logs", "configs")},
            "reports": reports,
        },
    }


def _first_finding(verdict: Verdict | None) -> dict[str, Any] | None:
    """What is wrong, in one sentence; of a run with which nothing is, what is worth knowing."""
    if verdict is None or not verdict.findings:
        return None
    graver = (finding for finding in verdict.findings if finding.severity != INFO)
    first = next(graver, verdict.findings[0])
    return {"rule": first.rule, "severity": first.severity, "message": first.message}


def _job(run: RunInfo, judged: Judgement | None) -> dict[str, Any] | None:
    if judged is not None and judged.job is not None:
        return judged.job
    return {"id": run.job_id, "state": None, "reason": None, "nodes": [], "time_left": None} if run.job_id else None


def _elapsed(run: RunInfo, judged: Judgement | None, *, live: bool) -> float | None:
    """Seconds that the attempt took so far, or in all."""
    if judged is None or judged.started is None:
        return None
    end = judged.verdict.as_of if live else judged.ended or run.last_progress
    return max(end - judged.started, 0.0) if end is not None else None


def _eta(step: int | None, max_steps: int | None, pace: float | None) -> float | None:
    """When the last step ends at the pace of the last ones, Unix seconds."""
    if step is None or max_steps is None or pace is None or step >= max_steps:
        return None
    return round(time.time() + (max_steps - step) * pace, 1)

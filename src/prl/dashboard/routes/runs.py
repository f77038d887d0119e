"""The list of runs, and what the header of a run's pages says."""

from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import orjson

from prl.dashboard.judgement import Judgement
from prl.dashboard.routing import Call, Route, head
from prl.dashboard.run_rows import run_detail, run_row
from prl.rundir.runs import RunInfo

MAX_ROWS = 5000
_MOMENT = 0.1
"""Seconds that a first look at the directories may keep the list waiting."""
_MAX_PROBLEMS = 100


class _Rows:
    """Rows as JSON, kept for as long as run and judgement are the same ones: of a thousand few change at a time."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, tuple[RunInfo, Judgement | None, bytes]] = OrderedDict()

    def get(self, run: RunInfo, judged: Judgement | None) -> orjson.Fragment:
        kept = self._rows.get(run.id)
        if kept is None or kept[0] is not run or kept[1] is not judged:
            kept = self._rows[run.id] = run, judged, orjson.dumps(run_row(run, judged))
            while len(self._rows) > MAX_ROWS:
                self._rows.popitem(last=False)
        return orjson.Fragment(kept[2])


_ROWS = _Rows()


def runs(call: Call) -> dict[str, Any]:
    workspace = call.workspace
    found, judge = workspace.runs(), workspace.judge
    shown = found.runs[:MAX_ROWS]
    judged = {run.id: made for run in shown if (made := judge.of(run.id)) is not None}
    problems = [*([judge.problem] if judge.problem else []), *found.problems]
    return head(
        dirs=[str(directory) for directory in workspace.dirs],
        scanning=found.scanning,
        counts={
            "runs": len(found.runs),
            "health": Counter(made.verdict.health for made in judged.values()),
            "problems": len(problems),
        },
        rows=[_ROWS.get(run, judged.get(run.id)) for run in shown],
        problems=problems[:_MAX_PROBLEMS],
        truncated=len(found.runs) > len(shown) or len(problems) > _MAX_PROBLEMS,
    )


def runs_version(call: Call) -> str:
    found, judge = call.workspace.runs(_MOMENT), call.workspace.judge
    return f"{found.version}.{judge.version}.{judge.problem}"


def run(call: Call) -> dict[str, Any]:
    opened, info = call.run, call.workspace.info(call.path["run"])
    judged = call.workspace.judge.look_at(info)
    return head(run=run_detail(info, judged, reports=_has_reports(opened.path)))


def run_version(call: Call) -> str:
    opened, info = call.run, call.workspace.info(call.path["run"])
    judged = call.workspace.judge.look_at(info)
    return f"{hash(info)}.{judged.version if judged else None}.{_has_reports(opened.path)}"


def _has_reports(path: Path) -> bool:
    return (path / "STATUS.md").exists() or (path / "reports").is_dir()


def prime_runs(call: Call) -> dict[str, Any]:
    """The list in the form of the run contract: what prime-rl's launchers and tools ask for."""
    found = call.workspace.runs()
    names = Counter(info.name for info in found.runs)
    directory = call.workspace.dirs[0] if call.workspace.dirs else None
    return {
        "output_dir": str(directory) if directory is not None else None,
        "runs": [_prime_row(info, unique=names[info.name] == 1) for info in found.runs[:MAX_ROWS]],
    }


def prime_runs_version(call: Call) -> str:
    return str(call.workspace.runs().version)


def _prime_row(info: RunInfo, *, unique: bool) -> dict[str, Any]:
    episodes = info.progress.episodes
    return {
        "name": info.name if unique else f"{info.path.parent.name}:{info.name}",
        "id": info.id,
        "type": info.kind,
        "finished": info.phase == "finished",
        "model": info.model,
        "dataset": info.dataset,
        "env": next(iter(info.train_envs or info.eval_envs), None),
        "train_envs": list(info.train_envs),
        "eval_envs": list(info.eval_envs),
        "total_episodes": episodes.value if episodes is not None else None,
        "planned_episodes": info.planned_episodes,
        "max_steps": info.max_steps,
        "last_step": info.step,
        "has_metrics": "metrics" not in info.missing,
        "created": info.created,
        "started": info.created,
        "updated": info.changed or None,
        "mtime": info.changed or None,
    }


_ROW = (
    "`id`, `name`, `path`, `dir`, `kind` (rl, sft, eval, other), `model`, `dataset`, `train_envs`, `eval_envs`, "
    "`step`, `max_steps` (null with `endless`: no last step), `episodes`, `planned_episodes`, `attempt`, `attempts`, "
    "`created`, `changed`, `last_progress`, `phase`, `health` (both null: not judged yet), `reason`, `finding` (the "
    "first: `rule`, `severity`, `message`), `findings` (how many), `job` (of SLURM: `id`, `state`, `reason`, `nodes`, "
    "`time_left`), `host`, `checkpoints` (steps of complete ones), `reward` (`points`, `last`, `change`, `step`), "
    "`judged_at`, `problems`"
)

ROUTES = (
    Route(
        "/api/v1/runs",
        runs,
        "All runs below the tracked directories, the most recently changed first",
        f"`dirs`; `scanning`: whether the first look goes on and more may come; `counts`; `rows`, a run each: {_ROW}; "
        "`problems`: what could not be looked at.",
        version=runs_version,
    ),
    Route(
        "/api/v1/runs/{run}",
        run,
        "One run: what the header of its pages says",
        "`run`: a row of the list, and `elapsed` (seconds of the attempt), `eta` (Unix seconds), `seconds_per_step`, "
        "`stage` (while it starts), `awaits`, `since_progress` (seconds), `layout`, `missing`, `has` (`metrics`, "
        "`episodes`, `logs`, `configs`, `reports`).",
        version=run_version,
    ),
    Route(
        "/api/runs",
        prime_runs,
        "The runs in the form of the run contract, from what is known at this moment",
        "`output_dir`, `runs`: `name`, `id`, `type`, `finished`, `model`, `dataset`, `env`, `train_envs`, `eval_envs`, "
        "`total_episodes`, `planned_episodes`, `max_steps`, `last_step`, `has_metrics`, `created`, `started`, "
        "`updated`, `mtime`. Ask `/api/v1/runs` for health and phase.",
        version=prime_runs_version,
        quick=True,
        has_head=False,
    ),
)

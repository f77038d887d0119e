"""Rollouts of one group or task side by side, and one task over the run."""

from typing import Any

from prl.dashboard.episode_filters import FILTERS, UPTO, filters_of
from prl.dashboard.episode_rows import episode_rows
from prl.dashboard.errors import bad_parameter, not_found
from prl.dashboard.group_view import MAX_ROLLOUTS, compared, group_rows, task_rows
from prl.dashboard.parameters import Parameter
from prl.dashboard.routes.episodes import BASE, version
from prl.dashboard.routing import Call, Route, head

MAX_LIMIT = 128
MAX_STEPS = 1000
GROUP = Parameter("group", "text", "id of a group")
TASK = Parameter("task", "text", "key of a task")
ENV = Parameter("env", "text", "its environment")


def groups(call: Call) -> dict[str, Any]:
    query = call.query
    with call.run.episodes() as table:
        found, total = table.groups(
            filters_of(query), by=query["by"], limit=query["limit"], offset=query["offset"], upto=query["upto"]
        )
        return head(total=total, offset=query["offset"], upto=table.count, rows=group_rows(table, found))


def group(call: Call) -> dict[str, Any]:
    rows, total = _members(call)
    found = compared(call.run.rollouts, rows)
    with call.run.episodes() as table:
        shown = episode_rows(table, rows)
    rewards = [row["reward"] for row in rows if row["reward"] is not None]
    mean = sum(rewards) / len(rewards) if rewards else None
    spread = (sum((reward - mean) ** 2 for reward in rewards) / len(rewards)) ** 0.5 if mean is not None else None
    rollouts = [{"row": row, **after} for row, after in zip(shown, found.pop("rollouts"), strict=True)]
    first = rows[0]
    return head(
        env=first["env"],
        group=first["group"],
        task=first["task"],
        step=first["ship_step"],
        total=total,
        rollouts=rollouts,
        reward_mean=mean,
        reward_std=spread,
        **found,
    )


def group_version(call: Call) -> str:
    rows, total = _members(call)
    return f"{total} {'; '.join(call.run.rollouts.state(row) for row in rows)}"


def task(call: Call) -> dict[str, Any]:
    from prl.rundir.episodes.filters import Filters

    query = call.query
    with call.run.episodes() as table:
        found, total = table.same_task(query["task"], env=query["env"], limit=MAX_STEPS)
        members = [
            table.select(Filters(task=query["task"], env=group.env, ship_step=group.step)).tolist() for group in found
        ]
        return head(task=query["task"], env=query["env"], rows=task_rows(table, found, members), total=total)


def _members(call: Call) -> tuple[list[dict[str, Any]], int]:
    """The episodes of the group or task, the earliest first, and how many there are. Raises ApiError."""
    from prl.rundir.episodes.filters import Filters

    query = call.query
    if (query["group"] is None) == (query["task"] is None):
        raise bad_parameter("group", "give either a group or a task")
    filters = Filters(group=query["group"], task=query["task"], env=query["env"], ship_step=query["step"])
    with call.run.episodes() as table:
        chosen = table.select(filters)
        rows = table.rows(chosen[:MAX_ROLLOUTS])
    if not rows:
        raise not_found("no episode of this group or task")
    return rows, len(chosen)


ROUTES = (
    Route(
        f"{BASE}/groups",
        groups,
        "Groups of rollouts, the newest first",
        "`rows`: a group each; `equal`: all its rewards are the same",
        (
            *FILTERS,
            Parameter("by", "choice", "what makes a group", default="group", choices=("group", "task")),
            Parameter("offset", "integer", "pass over so many", default=0, minimum=0),
            Parameter("limit", "integer", "at most so many", default=64, minimum=0, maximum=MAX_LIMIT),
            UPTO,
        ),
        version,
    ),
    Route(
        f"{BASE}/group",
        group,
        "The rollouts of a group side by side, and where they part",
        "`parting`: the first token that differs (null `token`: texts were compared), the `turn` it is in, the text "
        "before, and the `ways` with the rollouts that took each and the engine's probability of its first token; "
        "`text_after` of a rollout begins at the parting; null `parting`: see `reason`",
        (GROUP, TASK, ENV, Parameter("step", "range", "the step whose batch they went into")),
        group_version,
    ),
    Route(
        f"{BASE}/task",
        task,
        "One task at every step of the run",
        "`rows`: a step each with its episodes; `solved`: rewards of at least 1",
        (Parameter("task", "text", "key of a task", required=True), ENV),
        version,
    ),
)

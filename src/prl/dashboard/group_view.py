"""Rollouts of one task side by side: rewards, where they part, and the same task over the run."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prl.dashboard.bounded import masked
from prl.dashboard.episode_rows import reference
from prl.dashboard.errors import ApiError
from prl.dashboard.parting import Parting, Rollout, find_parting

if TYPE_CHECKING:
    from prl.dashboard.rollouts import Rollouts
    from prl.rundir.episodes.facets import Group
    from prl.rundir.episodes.table import EpisodeTable

MAX_ROLLOUTS = 64
SOLVED = 1.0
"""Reward from which on a rollout counts as solved. Environments with other scales have none that are."""
_PROMPT = 4000


def group_rows(table: "EpisodeTable", groups: "Sequence[Group]") -> list[dict[str, Any]]:
    """Groups as rows of an answer, each with the task and step of its first episode."""
    firsts = table.rows([group.first_row for group in groups])
    return [
        {
            "env": group.env,
            "group": first["group"],
            "task": first["task"],
            "step": group.step if group.step is not None else first["ship_step"],
            "count": group.count,
            "ok": group.ok,
            "reward_mean": group.reward_mean,
            "reward_min": group.reward_min,
            "reward_max": group.reward_max,
            "reward_std": group.reward_std,
            "equal": group.count > 1 and group.reward_std == 0.0,
            "last_arrival": group.last_arrival,
        }
        for group, first in zip(groups, firsts, strict=True)
    ]


def compared(rollouts: "Rollouts", rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the episodes of some rows have in common and where they part.

    ``rollouts`` of the answer is parallel to ``rows``; one whose record cannot be read says why.
    """
    found: list[Rollout | None] = []
    reasons: list[str | None] = []
    for row in rows:
        try:
            found.append(Rollout(rollouts.read(row)))
            reasons.append(None)
        except ApiError as error:
            found.append(None)
            reasons.append(error.message)
    read = [rollout for rollout in found if rollout is not None]
    parting = find_parting(read)
    texts = iter(parting.texts if isinstance(parting, Parting) else [None] * len(read))
    numbers = [place for place, rollout in enumerate(found) if rollout is not None]
    answer = parting.to_json() if isinstance(parting, Parting) else None
    if answer is not None:
        for way in answer["ways"]:
            way["rollouts"] = [numbers[number] for number in way["rollouts"]]
    return {
        "prompt": _prompt(read),
        "rollouts": [
            {"text_after": next(texts) if rollout is not None else None, "reason": reason}
            for rollout, reason in zip(found, reasons, strict=True)
        ],
        "parting": answer,
        "reason": parting if isinstance(parting, str) else None,
    }


def _prompt(rollouts: Sequence[Rollout]) -> str | None:
    """What the first of them was asked."""
    for rollout in rollouts:
        asked = next((text for role, text in rollout.messages if role == "user" and text), None)
        if asked is not None:
            return masked(asked, _PROMPT)
    return None


def task_rows(
    table: "EpisodeTable", groups: "Sequence[Group]", members: Sequence[Sequence[int]]
) -> list[dict[str, Any]]:
    """One task at each step, with the episodes of it and how many were solved."""
    rewards = table.column("reward")
    rows = []
    for group, places in zip(groups, members, strict=True):
        shown = list(places)[:MAX_ROLLOUTS]
        rows.append(
            {
                "step": group.step,
                "count": group.count,
                "solved": int((rewards[list(places)] >= SOLVED).sum()),
                "reward_mean": group.reward_mean,
                "rewards": [None if math.isnan(value) else value for value in rewards[shown].tolist()],
                "episodes": [reference(row) for row in table.rows(shown)],
            }
        )
    return rows

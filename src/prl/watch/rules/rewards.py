"""Evidence that a reward rises for another reason than the one it was made for. A person judges it, from episodes.

What such signs tell holds well afterwards and warns badly beforehand, so they change no health and ask for a look at
episodes. Left out: what a component's name suggests (names are compared, never interpreted), and the texts themselves.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from prl.watch.facts import Series
from prl.watch.rules.base import Rule
from prl.watch.statistics import baseline
from prl.watch.thresholds import RewardLimits
from prl.watch.verdict import ADVICE, FINISHED, INFO, WORKING, Evidence, Finding
from prl.watch.view import View, env_of

_EXAMPLES = 5


def reward_hacking(view: View) -> Finding | None:
    """The reward rises while what it stands for does not: evidence for a person, no verdict.

    Needs: per environment `reward/mean` and `rewards/<component>/mean` of `train/<env>/effective/<agent>`, the
    evaluation score `avg@…` of the environment of the same name (of another name where there is one of each), and
    `num_output_tokens/mean`, over at least {rewards.least} steps and {rewards.evaluations} evaluations.
    Speaks: as information, when one of these holds over the recorded steps (at most 120), comparing their first third
    with the last one: the reward rises and the evaluation falls; the reward rises, the evaluation does not and answers
    have become {rewards.lengths} times as long or as short; the reward does not fall, while one component rises and
    another falls. A change counts above {rewards.scatters} scatters and {rewards.change:.0%} of the level, a fall of
    an evaluation when each score of its later half lies below each of its earlier one.
    Silent: with fewer steps or evaluations; when reward and evaluation rise together; about one component that rises
    while the others stay, as a task that is learnt shows too; and while an alarm is active.
    """
    limits = view.limits.rewards
    signs = [sign for reward in _rewards(view) for sign in _signs(view, reward, limits)]
    if not signs:
        return None
    first = signs[0]
    more = f" ({len(signs) - 1} more signs)" if len(signs) > 1 else ""
    return Finding(
        rule="episodes.reward-hacking",
        severity=INFO,
        message=f"{first.text}{more}",
        evidence=[evidence for sign in signs for evidence in sign.evidence][:8],
        cause="possibly something that scores without doing the task; a trade-off that is meant, or an evaluation that "
        "asks for something else, looks the same",
        action=f"Compare what scores high now with the beginning: {_examples(view, first.env, first.steps)}",
        kind=ADVICE,
    )


@dataclass(frozen=True)
class _Change:
    """A series from its first third to its last one: medians, and the scatter within the thirds."""

    series: Series
    early: float
    late: float
    scatter: float
    limits: RewardLimits

    @cached_property
    def direction(self) -> int:
        """1 up, -1 down, 0 where it cannot be told from none."""
        by = self.late - self.early
        level = max(abs(self.early), abs(self.late))
        if abs(by) <= max(self.limits.scatters * self.scatter, self.limits.change * level):
            return 0
        return 1 if by > 0 else -1

    @property
    def text(self) -> str:
        return f"from {self.early:.3g} to {self.late:.3g}"

    @property
    def evidence(self) -> Evidence:
        step, time = self.series.last_step, self.series.times[-1]
        return Evidence(self.series.source, f"{self.series.key} {self.text}", step=step, time=time)


@dataclass(frozen=True)
class _Sign:
    env: str
    text: str
    evidence: list[Evidence]
    steps: tuple[int, int] | None
    """The first third of the steps that were compared."""


def _signs(view: View, reward: _Change, limits: RewardLimits) -> Iterator[_Sign]:
    env = env_of(reward.series)
    known = [step for step in reward.series.steps if step is not None]
    steps = (known[0], known[max(len(known) // 3 - 1, 0)]) if known else None
    if reward.direction > 0:
        for series in _evaluations(view, env):
            score = _halves(series, limits)
            longer = _lengths(view, env, limits)
            if score is None:
                continue
            if score.direction < 0:
                text = f"{env}: the reward rises {reward.text} while the evaluation falls {score.text}"
                yield _Sign(env, text, [reward.evidence, score.evidence], steps)
            elif score.direction == 0 and longer is not None:
                text = f"{env}: the reward rises {reward.text} with the length of answers ({longer.text} tokens)"
                text += f", the evaluation does not ({score.text})"
                yield _Sign(env, text, [reward.evidence, longer.evidence, score.evidence], steps)
    parts = _components(view, reward.series, limits)
    up, down = ([part for part in parts if part.direction == way] for way in (1, -1))
    if reward.direction >= 0 and up and down:
        text = f"{env}: of the reward ({reward.text}) {_named(up)} rises while {_named(down)} falls"
        yield _Sign(env, text, [part.evidence for part in (reward, *up[:2], *down[:2])], steps)


def _rewards(view: View) -> list[_Change]:
    found = view.of_episodes("reward", "mean", subset="effective", agents=True)
    return _changes(found, view.limits.rewards)


def _components(view: View, reward: Series, limits: RewardLimits) -> list[_Change]:
    """Those of the same environment and agent; they add up to the reward."""
    stem = reward.key.removesuffix("reward/mean") + "rewards/"
    found = [one for one in view.facts.series if one.key.startswith(stem) and one.key.endswith("/mean")]
    return _changes([one for one in found if one.producer == reward.producer], limits)


def _lengths(view: View, env: str, limits: RewardLimits) -> _Change | None:
    """How long answers have become, where that is another length."""
    found = view.of_episodes("num_output_tokens", "mean", subset="effective", agents=False)
    for change in _changes([one for one in found if env_of(one) == env], limits):
        small, large = sorted((change.early, change.late))
        if change.direction and large >= limits.lengths * small:
            return change
    return None


def _evaluations(view: View, env: str) -> list[Series]:
    """Scores of the environment of this name, or of the only one where there is one of each."""
    scores = [one for one in view.facts.series if one.key.startswith("eval/") and "/avg@" in one.key]
    names = {env_of(one) for one in scores}
    trained = {env_of(one) for one in view.of_episodes("reward", "mean", subset="effective", agents=True)}
    name = next(iter(names)) if len(names) == len(trained) == 1 else env
    return [one for one in scores if env_of(one) == name]


def _changes(found: list[Series], limits: RewardLimits) -> list[_Change]:
    changes = []
    for series in found:
        values = [value for value in series.values if value is not None]
        third = len(values) // 3
        if len(values) < max(limits.least, 3):
            continue
        early, late = baseline(values[:third], 1), baseline(values[-third:], 1)
        if early is not None and late is not None:
            scatter = max(early.scatter, late.scatter)
            changes.append(_Change(series, early.median, late.median, scatter, limits))
    return changes


def _halves(series: Series, limits: RewardLimits) -> _Change | None:
    """Few scores, each a mean of many episodes: a change is one that parts the earlier half from the later one."""
    values = [value for value in series.values if value is not None]
    half = len(values) // 2
    if len(values) < max(limits.evaluations, 2):
        return None
    early, late = values[:half], values[-half:]
    apart = max(late) < min(early) or max(early) < min(late)
    return _Change(series, sum(early) / half, sum(late) / half, 0.0 if apart else float("inf"), limits)


def _named(parts: list[_Change]) -> str:
    names = [part.series.key.partition("/rewards/")[2].removesuffix("/mean") for part in parts[:2]]
    more = f" and {len(parts) - 2} more" if len(parts) > 2 else ""
    return " and ".join(f"{name} ({part.text})" for name, part in zip(names, parts, strict=False)) + more


def _examples(view: View, env: str, steps: tuple[int, int] | None) -> str:
    words = ["prl", "episodes", view.facts.run.dir, *(["--env", env] if env != "agg" else [])]
    words += ["--sort", "reward", "--limit", str(_EXAMPLES)]
    last = view.step
    now = [*words, "--step", f"{max(last - 9, 0)}..{last}"] if last is not None else words
    first = [shlex.join([*words, "--step", f"{steps[0]}..{steps[1]}"])] if steps is not None else []
    return " and ".join(f"`{line}`" for line in (shlex.join(now), *first))


RULES = (Rule("episodes.reward-hacking", reward_hacking, (*WORKING, FINISHED)),)

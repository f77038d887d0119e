"""Names of metrics: choosing among them, showing them as a tree, and finding one by what it means.

A key is opaque: it may hold brackets, plus signs, spaces and empty parts, and be a series and a prefix of others at
once. So keys are compared and cut at ``/``, and in a pattern ``*`` and ``?`` alone are special. Left out: regular
expressions, because a key's own characters would mean something in them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Name = tuple[str, str]
"""(producer, key)."""

RENAMED = (
    ("gpu_cache_usage_perc", "kv_cache_usage_perc"),
    ("event_loop_lag/med", "event_loop_lag/median"),
    ("rollout/env_share", "batch"),
)
"""Parts of keys that older writers named otherwise: (older, newer)."""

MEANINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "reward": (("orch", "train/agg/effective/*/reward/mean"),),
    "reward_all": (("orch", "train/agg/all/*/reward/mean"),),
    "length": (("orch", "train/agg/effective/num_total_tokens/mean"),),
    "truncation": (("orch", "train/agg/effective/*/is_truncated/mean"),),
    "errors": (("orch", "train/agg/all/has_error/mean"),),
    "score": (("*", "eval/*/effective/*/avg@*"),),
    "loss": (("trainer", "loss/mean"),),
    "entropy": (("trainer", "entropy/all/mean"),),
    "mismatch_kl": (("trainer", "mismatch_kl/all/mean"),),
    "masked": (("trainer", "is_masked/mean"),),
    "grad_norm": (("trainer", "optim/grad_norm"),),
    "lr": (("trainer", "optim/lr"),),
    "mfu": (("trainer", "perf/mfu"),),
    "throughput": (("trainer", "perf/throughput"),),
    "memory": (("trainer", "perf/peak_memory"),),
    "trainer_step_time": (("trainer", "time/step"),),
    "orchestrator_step_time": (("orch", "time/step"),),
    "wait_for_batch": (("trainer", "time/wait_for_batch"),),
    "wait_for_policy": (("orch", "time/wait_for_policy"),),
    "off_policy": (("orch", "off_policy/mean"), ("orch", "dispatcher/off_policy/mean")),
    "policy_version": (("orch", "watcher/policy_version"),),
    "inflight": (("orch", "dispatcher/inflight/train"),),
    "loop_lag": (("orch", "event_loop_lag/p99"), ("orch", "event_loop_lag/median")),
    "kv_cache": (("orch", "inference/agg/kv_cache_usage_perc/max"), ("orch", "inference/agg/kv_cache_usage_perc/mean")),
    "running": (("orch", "inference/agg/num_requests_running/sum"),),
    "waiting": (("orch", "inference/agg/num_requests_waiting/sum"),),
}
"""What is usually asked for: by meaning, patterns of (producer, key), the first that a run has."""


_MAX_DEPTH = 32
"""Cuts of one key at most, so that walking a tree may recurse. What is left of the key is one part."""


@dataclass
class KeyNode:
    """A part of keys: the series that end here, and what goes on below."""

    name: str
    path: str
    """The key, or beginning of keys, up to here."""
    producers: list[str] = field(default_factory=list)
    """Who writes the series whose key ends here. Empty: it is a beginning only."""
    children: dict[str, "KeyNode"] = field(default_factory=dict)

    @property
    def series(self) -> int:
        """Series here and below."""
        return len(self.producers) + sum(child.series for child in self.children.values())


def key_tree(names: Iterable[Name]) -> KeyNode:
    """The keys cut at each ``/``, below a nameless root."""
    root = KeyNode("", "")
    for producer, key in sorted(names):
        node = root
        path = ""
        for index, part in enumerate(key.split("/", _MAX_DEPTH)):
            path = f"{path}/{part}" if index else part
            node = node.children.setdefault(part, KeyNode(part, path))
        node.producers.append(producer)
    return root


def match(names: Iterable[Name], pattern: str) -> list[Name]:
    """The names whose key fits ``pattern``, in their order.

    With ``*`` (any characters) or ``?`` (one) it must fit the whole key; any other text must be somewhere in it,
    whatever the case. Everything else, brackets too, stands for itself.
    """
    if "*" in pattern or "?" in pattern:
        return [name for name in names if fits(name[1], pattern)]
    text = pattern.lower()
    return [name for name in names if text in name[1].lower()]


def resolve(wanted: str, names: Sequence[Name]) -> list[Name]:
    """The series that somebody means, none when there is none.

    ``wanted`` is a key, ``producer:key``, an older or newer name of a key, or a meaning (:data:`MEANINGS`).
    """
    producer, colon, key = wanted.partition(":")
    if colon and (producer, key) in names:
        return [(producer, key)]
    for spelled in _spellings(wanted):
        if found := [name for name in names if name[1] == spelled]:
            return found
    for writer, pattern in MEANINGS.get(wanted, ()):
        for spelled in _spellings(pattern):
            if found := [name for name in names if fits(name[0], writer) and fits(name[1], spelled)]:
                return found
    return []


def fits(text: str, pattern: str) -> bool:
    """Whether ``pattern``, in which ``*`` is any characters and ``?`` one, fits the whole text.

    Takes at most len(text) x len(pattern) steps, whatever the pattern: only the last ``*`` is ever tried again.
    """
    at = place = 0
    star, retry = -1, 0
    while at < len(text):
        if place < len(pattern) and pattern[place] == "*":
            star, retry = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("?", text[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            retry += 1
            at, place = retry, star + 1
        else:
            return False
    return not pattern[place:].strip("*")


def newer_name(key: str) -> str:
    """A key as newer writers have it."""
    framed = f"/{key}/"
    for older, newer in RENAMED:
        framed = framed.replace(f"/{older}/", f"/{newer}/")
    return framed[1:-1]


def _spellings(key: str) -> list[str]:
    """A key as given and, part by part, under its other names."""
    spelled = [key]
    framed = f"/{key}/"
    for older, newer in RENAMED:
        for one, other in ((older, newer), (newer, older)):
            if f"/{one}/" in framed:
                spelled.append(framed.replace(f"/{one}/", f"/{other}/")[1:-1])
    return spelled

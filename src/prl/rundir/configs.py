"""What each attempt of a run was configured with: the command, the files as given, what they resolved to.

Documents are read as plain JSON, whoever's models made them. Keys are opaque: a difference names a value by the tuple
of keys and list indices that leads to it. Secrets are masked where a difference leaves (:meth:`Change.to_json`), never
in what is compared. Left out: parsing the launch files (TOML). Their text is shown as it is; what counts is resolved.
"""

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prl.rundir.layout import numbered
from prl.rundir.tree import RunTree
from prl.rundir.untyped import as_object
from prl.text.secrets import MASK, mask_secrets

Document = dict[str, Any]
Keys = tuple[str | int, ...]

ABSENT = "absent"
"""Stands for a side of a :class:`Change` that has no value (``null`` is a value)."""

_LAUNCH_FILES = (".toml", ".json", ".yaml", ".yml")
_NOT_GIVEN = ("environment.json",)
MAX_SHOWN = 400
"""Characters of a value in a difference that is shown."""
_LIKE_A_SECRET = "a1b2c3d4"
_MAX_DEPTH = 50
"""Levels of one."""


@dataclass(frozen=True)
class AttemptConfigs:
    """The configuration of one attempt."""

    attempt: int | None
    """None: a layout without attempts."""
    command: str | None
    """What was typed, one line for a shell."""
    files: tuple[str, ...]
    """Launch files as they were given, names below the run directory."""
    documents: dict[str, Document]
    """What each component was given: ``trainer``, ``orchestrator``, ``envs/train/<name>`` ..."""
    addresses: dict[str, str]
    """Where each environment server listened, by ``envs/<split>/<name>``."""
    environment: Document | None
    """Commit, packages, host, devices, interpreter and seeds of the launch."""
    trouble: tuple[str, ...] = ()
    """What is there and could not be read."""


@dataclass(frozen=True)
class Change:
    """One value that differs. ``keys`` begin with the document's name."""

    keys: Keys
    before: Any
    """:data:`ABSENT` where ``kind`` is ``added``."""
    after: Any
    """:data:`ABSENT` where ``kind`` is ``removed``."""
    kind: str
    """``added``, ``removed`` or ``changed``."""

    def to_json(self) -> dict[str, Any]:
        """For output: values as they are, secrets masked and long texts cut."""
        sides = {
            name: shown(self.keys, value)
            for name, value, without in (("before", self.before, "added"), ("after", self.after, "removed"))
            if self.kind != without
        }
        return {"keys": list(self.keys), "kind": self.kind, **sides}


@dataclass(frozen=True)
class _Places:
    """Where the configuration of an attempt lies, names below the run directory."""

    given: str
    resolved: tuple[str, ...]
    """The first that holds any document counts."""


def attempts_of(tree: RunTree) -> list[int]:
    """Numbers of the attempts that left configurations or logs, ascending. Links (``latest``) are none."""
    found: set[int] = set()
    for parent in ("configs", "logs"):
        found |= {
            number
            for entry in tree.entries(parent)
            if (number := numbered(entry.name, "attempt_")) is not None and entry.is_dir(follow_symlinks=False)
        }
    return sorted(found)


def read_configs(root: Path, attempt: int | None = None) -> AttemptConfigs:
    """The configuration of ``attempt`` (default: the newest that left one) of the run at ``root``. Raises nothing."""
    tree = RunTree(root)
    attempts = attempts_of(tree)
    wanted = attempts if attempt is None else [attempt]
    for number in reversed(wanted):
        found = _read(tree, number)
        if found.documents or found.command or found.files or number == wanted[0]:
            return found
    return _read(tree, None)


def read_documents(tree: RunTree, attempt: int | None, names: Container[str]) -> dict[str, Document]:
    """What those components of an attempt that ``names`` has were given."""
    return _documents(tree, _places(attempt).resolved, names)


def diff(before: AttemptConfigs, after: AttemptConfigs) -> list[Change]:
    """What differs between the resolved documents of two attempts, of one run or of two, in the order of the keys.

    Lists are compared by index. A whole number and the float of the same value are the same; true and 1 are not.
    """
    return sorted(_differences(before.documents, after.documents), key=lambda change: tuple(map(_order, change.keys)))


def source_name(source: object) -> str | None:
    """What a source of episodes is called: the name it was given, else its task set's."""
    known = as_object(source)
    taskset = as_object(as_object(known.get("env")).get("taskset"))
    return first_text((known.get("name"), taskset.get("id"), known.get("id")))


def first_text(values: Iterable[object]) -> str | None:
    """The first of ``values`` that is a text with content."""
    return next((value for value in values if isinstance(value, str) and value), None)


def same(before: Any, after: Any) -> bool:
    """Whether two plain JSON values that hold no others are the same."""
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if isinstance(before, float) and isinstance(after, float) and math.isnan(before) and math.isnan(after):
        return True
    return bool(before == after)


def _places(attempt: int | None) -> _Places:
    if attempt is None:
        return _Places("configs", ("configs/resolved", "configs"))
    given = f"configs/attempt_{attempt}"
    return _Places(given, (f"{given}/resolved",))


def _read(tree: RunTree, attempt: int | None) -> AttemptConfigs:
    places = _places(attempt)
    documents = _documents(tree, places.resolved)
    addresses = {}
    for resolved in places.resolved:
        for split in tree.names(f"{resolved}/envs"):
            for name in tree.names(f"{resolved}/envs/{split}"):
                key = f"envs/{split}/{name.rpartition('.')[0]}"
                path = f"{resolved}/envs/{split}/{name}"
                if name.endswith(".json") and (document := tree.document(path)) is not None:
                    documents[key] = document
                elif name.endswith(".address") and (address := tree.text(path, 4096)) is not None:
                    addresses[key] = address.strip()
    command = tree.text(f"{places.given}/command.txt")
    return AttemptConfigs(
        attempt=attempt,
        command=command.strip() if command is not None else None,
        files=tuple(f"{places.given}/{name}" for name in tree.names(places.given) if _is_given(name, attempt)),
        documents=documents,
        addresses=addresses,
        environment=tree.document(f"{places.given}/environment.json"),
        trouble=tuple(tree.trouble),
    )


def _is_given(name: str, attempt: int | None) -> bool:
    """Whether a file beside the command is one that the user gave. In the oldest layout all JSON there is resolved."""
    return name.endswith(_LAUNCH_FILES[:1] if attempt is None else _LAUNCH_FILES) and name not in _NOT_GIVEN


def _documents(
    tree: RunTree, directories: tuple[str, ...], wanted: Container[str] | None = None
) -> dict[str, Document]:
    """The documents of the first directory that holds any."""
    for directory in directories:
        names = (name[:-5] for name in tree.names(directory) if name.endswith(".json") and name not in _NOT_GIVEN)
        found = {
            name: document
            for name in names
            if wanted is None or name in wanted
            if (document := tree.document(f"{directory}/{name}.json")) is not None
        }
        if found:
            return found
    return {}


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    waiting: list[tuple[Keys, Any, Any]] = [((), before, after)]
    while waiting:  # not by recursion: anybody's document may be nested deeper than that goes
        keys, old, new = waiting.pop()
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            pairs = [(key, old.get(key, _Missing), new.get(key, _Missing)) for key in {**old, **new}]
        elif isinstance(old, list) and isinstance(new, list):
            length = max(len(old), len(new))
            pairs = [(index, _item(old, index), _item(new, index)) for index in range(length)]
        elif isinstance(old, Mapping | list) or isinstance(new, Mapping | list) or not same(old, new):
            yield Change(keys, old, new, "changed")
            continue
        else:
            continue
        for key, one, other in pairs:
            if one is _Missing:
                yield Change((*keys, key), ABSENT, other, "added")
            elif other is _Missing:
                yield Change((*keys, key), one, ABSENT, "removed")
            else:
                waiting.append(((*keys, key), one, other))


class _Missing:
    """No value at all."""


def _item(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else _Missing


def _order(key: str | int) -> tuple[bool, int, str]:
    return (False, key, "") if isinstance(key, int) else (True, 0, key)


def shown(keys: Keys, value: Any, width: int = MAX_SHOWN, depth: int = _MAX_DEPTH) -> Any:
    """A value for output, by the name it goes by: ``api_key`` hides what ``name`` does not. Texts are cut at
    ``width`` characters."""
    name = next((key for key in reversed(keys) if isinstance(key, str)), "")
    if isinstance(value, Mapping | list) and depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {key: shown((key,), entry, width, depth - 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [shown(keys, entry, width, depth - 1) for entry in value]
    if isinstance(value, str):
        masked = _masked(name, value)
        return masked if len(masked) <= width else masked[: width - 1] + "…"
    if isinstance(value, int | float) and not isinstance(value, bool) and _masked(name, str(value)) == MASK:
        return MASK
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _masked(name: str, text: str) -> str:
    """The value of a name. Where the name speaks of a secret nothing of it is left, also behind a space."""
    given = f"{name}={text}"
    masked = mask_secrets(given)
    if masked != given and mask_secrets(f"{name}={_LIKE_A_SECRET}") == f"{name}={MASK}":
        return MASK
    return masked.removeprefix(f"{name}=")

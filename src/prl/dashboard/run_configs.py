"""What a run was configured with, for a page: as it was written and as it was resolved, secrets masked.

The files stay as they are. What leaves is masked by pattern and, in documents, by the names of the values. Left out:
differences, which :mod:`prl.rundir.configs` finds.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prl.dashboard.errors import bad_parameter, not_found
from prl.rundir.configs import AttemptConfigs, Change, Keys, attempts_of, diff, read_configs, shown
from prl.rundir.tree import RunTree
from prl.text.secrets import mask_secrets

MAX_FILE = 1024**2
"""Bytes of a launch file."""
MAX_VALUE = 20_000
"""Characters of a text in a document."""
MAX_ROWS = 1000
"""Differences in an answer."""

_NOTHING = object()
"""Stands for no value at all."""


def configs(run: Path, attempt: int | None) -> dict[str, Any]:
    """The configuration of an attempt (default: the newest that left one). Raises ApiError (404)."""
    found = read(run, attempt)
    tree = RunTree(run)
    environment = found.environment or {}
    where = environment.get("cwd")
    return {
        "attempt": found.attempt,
        "attempts": attempts_of(tree),
        "command": None if found.command is None else mask_secrets(found.command),
        "cwd": mask_secrets(where) if isinstance(where, str) else None,
        "files": [
            {"name": name.rpartition("/")[2], "text": mask_secrets(text)}
            for name in found.files
            if (text := tree.text(name, MAX_FILE)) is not None
        ],
        "documents": {name: _tree(document) for name, document in found.documents.items()},
        "addresses": found.addresses,
        "environment": None if found.environment is None else _tree(found.environment),
        "trouble": [*found.trouble, *tree.trouble],
    }


def read(run: Path, attempt: int | None) -> AttemptConfigs:
    """The configuration of an attempt. Raises ApiError (404) for one that there is not."""
    known = attempts_of(RunTree(run))
    if attempt is not None and attempt not in known:
        numbers = ", ".join(map(str, known)) or "none"
        raise not_found(f"the run has no attempt {attempt} (it has {numbers})")
    return read_configs(run, attempt)


def differences(before: AttemptConfigs, after: AttemptConfigs) -> dict[str, Any]:
    """What differs between two attempts, in the order of the keys."""
    found = diff(before, after)
    counts = {kind: sum(change.kind == kind for change in found) for kind in ("added", "removed", "changed")}
    return {
        "rows": [_row(change) for change in found[:MAX_ROWS]],
        "counts": {"all": len(found), **counts},
        "truncated": len(found) > MAX_ROWS,
    }


def several(given: Sequence[AttemptConfigs], limit: int) -> dict[str, Any]:
    """The values that are not the same in all of some configurations."""
    changed: dict[Keys, None] = {}
    for other in given[1:]:
        changed.update((change.keys, None) for change in diff(given[0], other))
    # Where one run has no such part at all, what the others have below it is not told again.
    rows = [keys for keys in sorted(changed, key=_order) if not any(keys[:end] in changed for end in range(len(keys)))]
    return {
        "total": len(rows),
        "differ": [
            {
                "key": dotted(keys),
                "keys": list(keys),
                "values": [_side(keys, one.documents) for one in given],
            }
            for keys in rows[:limit]
        ],
        "truncated": len(rows) > limit,
    }


def split_target(parameter: str, text: str) -> tuple[str, int | None]:
    """``RUN:attempt`` or ``RUN``. The name of a run may hold colons. Raises ApiError (400)."""
    run, colon, attempt = text.rpartition(":")
    if not colon or "~" in attempt:
        return text, None
    if not attempt.isascii() or not attempt.isdigit() or len(attempt) > 12:
        raise bad_parameter(parameter, "is RUN or RUN:attempt, the attempt a whole number")
    return run, int(attempt)


def dotted(keys: Keys) -> str:
    """Keys as one text to read: ``trainer.optim.lr``, ``train.source[0].id``."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def _tree(value: Any) -> Any:
    return shown((), value, MAX_VALUE)


def _row(change: Change) -> dict[str, Any]:
    told = change.to_json()
    return {"key": dotted(change.keys), "before": None, "after": None, **told}


def _side(keys: Keys, documents: Mapping[str, Any]) -> Any:
    """The value at some keys: a plain one as it is, others as JSON text; ``{"set": false}`` where there is none."""
    value: Any = documents
    for key in keys:
        value = _below(value, key)
        if value is _NOTHING:
            return {"set": False}
    told = shown(keys, value)
    return json.dumps(told, ensure_ascii=False)[:MAX_VALUE] if isinstance(told, dict | list) else told


def _below(value: Any, key: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(key, _NOTHING)
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return value[key]
    return _NOTHING


def _order(keys: Keys) -> tuple[tuple[bool, int, str], ...]:
    return tuple((False, key, "") if isinstance(key, int) else (True, 0, key) for key in keys)

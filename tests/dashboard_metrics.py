"""Runs made of given rows of metrics, and a caller of the dashboard over them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dashboard_client import Client
from prl.dashboard.app import create_app
from prl.dashboard.workspace import Workspace
from prl.rundir.recognition import run_id

START = 1_795_946_400.0
"""When the runs began."""

HOSTILE_KEYS = (
    "__proto__",
    "constructor",
    "../x",
    "../../etc/passwd",
    "a/../../b",
    "",
    "/",
    "a//b",
    "huber_loss[delta=1.3]",
    "val/acc/mean@1",
    ".*(a+)+$",
    "*",
    "?",
    "a\\b",
    "tab\there",
    "\x1b]0;pwned\x07",
    "\x1b[2J",
    "\u202eright to left",
    "<img src=x onerror=alert(1)>",
    "größe/平均/🙂",
    "with space/and+plus&amp;=%2F",
    "key:with:colons",
    "null\x00byte",
    "WANDB_API_KEY=0123abcd",
    "k" * 10_000,
)


def row(step: int | None, time: float, producer: str = "trainer", /, **values: Any) -> dict[str, Any]:
    """A row as writers write it. ``__`` in a name stands for a slash."""
    return {
        "step": step,
        "time": time,
        **{key.replace("__", "/"): v for key, v in values.items()},
        "producer": producer,
    }


def write_rows(run: Path, rows: Iterable[Mapping[str, Any]], *, tail: bytes = b"") -> Path:
    """A run with these rows (``NaN`` is written as Python does), and its directory."""
    path = run / "monitors" / "file" / "metrics.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in rows) + tail)
    return run


def add_rows(run: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with (run / "monitors" / "file" / "metrics.jsonl").open("ab") as file:
        file.writelines(json.dumps(one).encode() + b"\n" for one in rows)


def write_config(run: Path, attempt: int, **documents: Any) -> None:
    """The resolved configuration of an attempt."""
    resolved = run / "configs" / f"attempt_{attempt}" / "resolved"
    resolved.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (resolved / f"{name}.json").write_text(json.dumps(document))


def client_of(directory: Path) -> Client:
    return Client(create_app(Workspace([directory])))


def api(run: Path, what: str = "") -> str:
    """The address of something of a run."""
    return f"/api/v1/runs/{run_id(str(run.resolve()))}/{what}"

"""Runs for tests of the dashboard's routes: made-up episodes written as a run's own writer would, and who asks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dashboard_client import Answer, Client
from prl.dashboard.app import create_app
from prl.dashboard.workspace import Workspace
from prl.rundir.annotations.writer import AnnotationWriter
from prl.rundir.episodes.writer import EpisodeWriter
from prl.rundir.layout import RunLayout
from prl.rundir.recognition import run_id


class RunClient:
    """Asks for what lies below one run's address."""

    def __init__(self, root: Path) -> None:
        self.client = Client(create_app(Workspace([root.parent])))
        self.base = f"/api/v1/runs/{run_id(str(root.resolve()))}"

    def answer(self, path: str, **query: Any) -> Answer:
        return self.client.get(f"{self.base}/{path}", **query)

    def json(self, path: str, **query: Any) -> Any:
        answer = self.answer(path, **query)
        assert answer.status == 200, answer.text
        return answer.json


def write_episodes(
    root: Path,
    records: Sequence[dict[str, Any]],
    updates: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    *,
    sealed: bool = False,
) -> Path:
    """A run with these episodes, and updates of traces by their producer."""
    (root / "configs").mkdir(parents=True, exist_ok=True)
    traces = RunLayout(root).traces
    writer = EpisodeWriter(traces, chunk_bytes=1 << 30)
    for record in records:
        writer.append(record, arrival=1_790_000_050.0)
    writer.close(clean=sealed)
    for producer, found in (updates or {}).items():
        annotations = AnnotationWriter(traces, producer, chunk_bytes=1 << 30)
        for update in found:
            annotations.append(update)
        annotations.close(clean=sealed)
    return root


def message(role: str, content: Any = "", parent: int | None = None, **more: Any) -> dict[str, Any]:
    """A node without tokens."""
    extra = {name: more.pop(name) for name in ("tool_calls", "tool_call_id", "reasoning_content") if name in more}
    written = {"role": role, "content": content, **extra}
    return {"parent": parent, "message": written, "sampled": role == "assistant", **more}


def tokens(node: dict[str, Any], ids: list[int], mask: list[bool], **streams: list[Any]) -> dict[str, Any]:
    """A node with tokens."""
    return {**node, "token_ids": ids, "mask": mask, "is_content": mask, **streams}

"""Which runs are kept open, and that closing one keeps nobody waiting."""

import shutil
import threading
from pathlib import Path

import pytest

from prl.dashboard import workspace as workspace_module
from prl.dashboard.errors import ApiError
from prl.dashboard.open_runs import OpenRun
from prl.dashboard.workspace import Workspace
from prl.rundir.recognition import run_id
from prl.synth import RunShape, write_run


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        write_run(tmp_path / "outputs" / name, RunShape(steps=1, episodes=1))
    return tmp_path / "outputs"


def ids(outputs: Path) -> list[str]:
    return [run_id(str((outputs / name).resolve())) for name in ("one", "two")]


def test_a_run_is_closed_while_others_may_use_the_workspace(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits for the run's reader. It waits for whoever uses the run's metrics, and he may ask the workspace."""
    monkeypatch.setattr(workspace_module, "MAX_OPEN", 1)
    workspace = Workspace([outputs])
    answered = []

    def close(run: OpenRun) -> None:
        other = threading.Thread(target=lambda: workspace.judge, daemon=True)
        other.start()
        other.join(5)
        answered.append((run.id, not other.is_alive()))

    monkeypatch.setattr(OpenRun, "close", close)
    one, two = ids(outputs)
    workspace.open(one)
    workspace.open(two)
    assert answered == [(one, True)]


def test_a_run_whose_directory_is_gone_is_closed(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes on reading files that nobody can ask for any more."""
    closed = []
    monkeypatch.setattr(OpenRun, "close", lambda run: closed.append(run.id))
    workspace = Workspace([outputs])
    one, _ = ids(outputs)
    workspace.open(one)
    shutil.rmtree(outputs / "one")
    with pytest.raises(ApiError) as raised:
        workspace.open(one)
    assert raised.value.status == 410 and closed == [one]

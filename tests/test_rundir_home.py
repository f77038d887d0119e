"""A user without a home, as in a container that runs under any id: everything is read, nothing is kept."""

from pathlib import Path

import pytest

from prl.rundir.home import home
from prl.rundir.run import Run
from prl.synth import RunShape, write_run
from prl.watch import status_of
from prl.watch.thresholds import DEFAULT, load_thresholds


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", none)
    for name in ("PRL_CACHE_DIR", "PRL_STATE_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)


def test_a_home_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home() == tmp_path


def test_a_run_is_read_and_judged_without_one(homeless: None, tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", RunShape(steps=2, rollouts=8))
    run = Run(root)
    run.episodes.refresh()
    assert len(run.episodes.select()) > 0 and run.metrics.names()
    assert status_of(root).phase == "finished"
    assert load_thresholds() == DEFAULT
    with pytest.raises(OSError, match="/dev/null"):
        (home() / ".cache").mkdir(parents=True)

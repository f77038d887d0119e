"""Where a run goes on."""

from pathlib import Path

import pytest

from launch_stand_ins import make_checkpoint
from prl.config import ResumeConfig
from prl.launch.exits import CONFIGURATION, RUN_DIRECTORY, RefusedError
from prl.launch.resume import resume_point
from prl.rundir.checkpoints import HALVES


def test_the_newest_complete_checkpoint_or_the_one_asked_for(tmp_path: Path) -> None:
    for step in (5, 10):
        make_checkpoint(tmp_path, step)
    make_checkpoint(tmp_path, 15, ("orchestrator",))
    (tmp_path / "step_20.tmp").mkdir()
    newest = resume_point(ResumeConfig(), tmp_path, HALVES, 30)
    assert newest is not None
    assert (newest.step, newest.directory, newest.fork) == (10, tmp_path / "step_10", False)
    assert newest.config == ResumeConfig(step=10)
    asked = resume_point(ResumeConfig(step=5), tmp_path, HALVES, None)
    assert asked is not None
    assert asked.step == 5
    assert resume_point(None, tmp_path, HALVES, 30) is None


def test_a_supervised_run_has_no_orchestrators_half(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 5, ("trainer",))
    point = resume_point(ResumeConfig(), tmp_path, ("trainer",), 30)
    assert point is not None
    assert point.step == 5


@pytest.mark.parametrize(
    ("resume", "max_steps", "code", "message"),
    [
        (ResumeConfig(), 10, CONFIGURATION, "max_steps = 10: the checkpoint is of step 10"),
        (ResumeConfig(), 9, CONFIGURATION, "nothing is left to train"),
        (ResumeConfig(step=7), 30, RUN_DIRECTORY, r"no complete checkpoint of that step.*\[10\]"),
        (ResumeConfig(dir=Path("made/up")), 30, CONFIGURATION, "must end in step_<number>"),
        (ResumeConfig(dir=Path("absent/step_3")), 30, RUN_DIRECTORY, "not a complete checkpoint"),
    ],
)
def test_refusals(tmp_path: Path, resume: ResumeConfig, max_steps: int, code: int, message: str) -> None:
    make_checkpoint(tmp_path, 10)
    with pytest.raises(RefusedError, match=message) as refused:
        resume_point(resume, tmp_path, HALVES, max_steps)
    assert refused.value.exit_code == code


def test_without_a_complete_checkpoint_it_says_what_there_is(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 15, ("orchestrator",))
    with pytest.raises(RefusedError, match="there is only step_15"):
        resume_point(ResumeConfig(), tmp_path, HALVES, None)
    with pytest.raises(RefusedError, match="does not exist"):
        resume_point(ResumeConfig(), tmp_path / "absent", HALVES, None)


def test_a_fork_begins_a_run_of_its_own(tmp_path: Path) -> None:
    other = make_checkpoint(tmp_path / "other", 4)
    point = resume_point(ResumeConfig(dir=other), tmp_path / "mine", HALVES, 30)
    assert point is not None
    assert (point.step, point.fork, point.config) == (4, True, ResumeConfig(dir=other))

"""When checkpoints are due, which is found, what is refused, and that a state survives."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint import FileSystemWriter

from prl.config import CkptConfig, ResumeConfig
from prl.config.trainer import AdamWConfig, LinearSchedulerConfig
from prl.rundir.checkpoints import HALVES, TRAINER, complete_steps
from prl.trainer.checkpoint import Checkpoints, ResumeError, start_or_resume
from prl.trainer.learner import Learner, Progress
from prl.trainer.model import pack_tokens
from prl.trainer.parallel import World
from prl.trainer.tiny import make_tiny_model

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"), hidden_size=8, num_layers=1)


def learner(model: Path) -> Learner:
    return Learner(str(model), AdamWConfig(lr=0.1), LinearSchedulerConfig(warmup_steps=4), None, World(0, 1, CPU))


def one_update(learner: Learner) -> None:
    tokens = pack_tokens([1, 2, 3], [True] * 3, [3], CPU)
    learner.backward(torch.nn.functional.cross_entropy(learner.predict(tokens), tokens.targets))
    learner.update()


def saved(root: Path, learner: Learner, config: CkptConfig | None = None) -> Checkpoints:
    return Checkpoints(root, config or CkptConfig(), (TRAINER,), learner)


def test_model_optimizer_schedule_and_progress_survive(model: Path, tmp_path: Path) -> None:
    first = learner(model)
    one_update(first)
    progress = Progress(step=1, total_tokens=3, total_samples=1)
    saved(tmp_path, first).save(progress)
    second = learner(model)
    assert saved(tmp_path, second).load(tmp_path / "step_1") == progress
    assert second.schedule.steps == 1
    for each in (first, second):
        one_update(each)
    for mine, theirs in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_metadata_is_there_when_the_checkpoint_is(model: Path, tmp_path: Path) -> None:
    saved(tmp_path, learner(model)).save(Progress(step=4))
    assert (tmp_path / "step_4" / "trainer" / ".metadata").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["step_4"]


def test_the_trainers_half_alone_is_not_a_checkpoint_of_an_rl_run(model: Path, tmp_path: Path) -> None:
    Checkpoints(tmp_path, CkptConfig(), HALVES, learner(model)).save(Progress(step=4))
    assert complete_steps(tmp_path) == []
    assert (tmp_path / "step_4.tmp" / "trainer" / ".metadata").exists()


def test_retention_keeps_the_newest_and_multiples(model: Path, tmp_path: Path) -> None:
    some = saved(tmp_path, learner(model), CkptConfig(keep_last=1, keep_interval=4))
    for step in (2, 4, 6, 8, 9):
        some.save(Progress(step=step))
    assert complete_steps(tmp_path, (TRAINER,)) == [4, 8, 9]


def test_an_interval_says_when_and_the_last_step_is_saved_after_the_loop(model: Path, tmp_path: Path) -> None:
    some = saved(tmp_path, learner(model), CkptConfig(interval=5))
    assert [step for step in range(1, 16) if some.due(step, max_steps=15)] == [5, 10]
    assert not saved(tmp_path, learner(model)).due(5, None)


def test_the_newest_complete_one_is_found_and_a_missing_one_refused(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    some = saved(tmp_path, learner(model))
    assert some.find(None) is None
    assert some.find(ResumeConfig()) is None
    assert "no complete checkpoint" in caplog.text
    some.save(Progress(step=3))
    some.save(Progress(step=12))
    (tmp_path / "step_20" / "trainer").mkdir(parents=True)
    assert some.find(ResumeConfig()) == tmp_path / "step_12"
    assert some.find(ResumeConfig(step=3)) == tmp_path / "step_3"
    with pytest.raises(ResumeError, match=r"step_20: no complete checkpoint there \(complete in .*: \[3, 12\]\)"):
        some.find(ResumeConfig(step=20))
    with pytest.raises(ResumeError, match="no complete checkpoint there"):
        some.find(ResumeConfig(dir=tmp_path / "elsewhere" / "step_1"))


def test_a_checkpoint_of_another_model_is_refused(model: Path, tmp_path: Path) -> None:
    saved(tmp_path / "ckpt", learner(model)).save(Progress(step=1))
    other = learner(make_tiny_model(tmp_path / "other", hidden_size=16, num_layers=1))
    with pytest.raises(ResumeError, match=r"step_1: it cannot be loaded \(rank 0: ValueError: Size mismatch"):
        saved(tmp_path / "ckpt", other).load(tmp_path / "ckpt" / "step_1")


def test_a_full_disk_costs_the_checkpoint_and_leaves_no_part_of_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileSystemWriter, "write_data", full)
    assert not saved(tmp_path, learner(model)).save(Progress(step=2))
    assert re.search(
        r"checkpoint at step 2 could not be saved: no space left on device: rank 0: OSError: .*No space left on device",
        caplog.text,
    )
    assert complete_steps(tmp_path, (TRAINER,)) == []
    assert not (tmp_path / "step_2.tmp" / "trainer.tmp").exists()


def test_a_full_disk_is_named_though_the_writer_speaks_of_positions(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def short(*_: object) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598")

    monkeypatch.setattr(FileSystemWriter, "write_data", short)
    assert not saved(tmp_path, learner(model)).save(Progress(step=2))
    assert "could not be saved: rank 0: RuntimeError" in caplog.text, "with room on the disk, it is another fault"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 0))
    assert not saved(tmp_path, learner(model)).save(Progress(step=4))
    assert "step 4 could not be saved: no space left on device: rank 0: RuntimeError" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_directory_that_cannot_be_made_costs_the_checkpoint_only(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "checkpoints").write_text("a file where the directory should be")
    assert not saved(tmp_path / "checkpoints", learner(model)).save(Progress(step=2))
    assert "could not be saved: [Errno 20] Not a directory" in caplog.text


def test_a_finished_training_is_refused(model: Path, tmp_path: Path) -> None:
    some = saved(tmp_path, learner(model))
    some.save(Progress(step=5))
    with pytest.raises(ResumeError, match=r"nothing is left to train: .*at step 5 and max_steps = 5"):
        start_or_resume(some, ResumeConfig(), 5)
    assert start_or_resume(some, ResumeConfig(), 6).step == 5

"""In which state each checkpoint is, whoever wrote it and wherever it lies."""

import os
from pathlib import Path
from typing import Any

import pytest

from made_up_runs import aged, write
from prl.rundir import checkpoint_states as cs
from prl.rundir import checkpoints as ck
from prl.rundir.checkpoint_states import CheckpointState, read_checkpoints

NOW = 2_000_000_000.0
METADATA = b"\x80\x04__0_0.distcp\x94...__1_0.distcp\x94...__0_0.distcp\x94."
TRAINER = {"trainer/.metadata": METADATA, "trainer/__0_0.distcp": "shard", "trainer/__1_0.distcp": "shard!"}
ORCHESTRATOR = {"orchestrator/progress.pt": "PK"}


def below(directory: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {f"checkpoints/{directory}/{name}": content for part in parts for name, content in part.items()}


def states(root: Path, age: float = 60.0, documents: dict[str, Any] | None = None) -> list[CheckpointState]:
    aged(root, NOW - age)
    return list(read_checkpoints(root, documents or {}, NOW).states)


@pytest.mark.parametrize(
    ("files", "age", "state", "problem"),
    [
        (below("step_4", TRAINER, ORCHESTRATOR), 60, "complete", None),
        (below("step_4", ORCHESTRATOR), 60, "half", "trainer has not begun its half"),
        (below("step_4.tmp", ORCHESTRATOR), 9000, "half", "trainer has not begun its half"),
        (below("step_4", TRAINER), 60, "half", "orchestrator has not begun its half"),
        (below("step_4", {"trainer/__0_0.distcp": "x"}), 60, "writing", "trainer has not finished its half"),
        (
            below("step_4", {"trainer/__0_0.distcp": "x"}, ORCHESTRATOR),
            601,
            "stuck",
            "trainer has not finished its half, and nothing was written for 10m 1s",
        ),
        (below("step_4.tmp", {"trainer.tmp/__0_0.distcp": "x"}, ORCHESTRATOR), 60, "writing", "trainer has not finish"),
        (below("step_4.whole.tmp", TRAINER, ORCHESTRATOR), 60, "writing", "it was not moved to its final name"),
        (below("step_4.whole.tmp", TRAINER, ORCHESTRATOR), 9000, "stuck", "it was not moved to its final name"),
        (below("step_4", {"trainer/.metadata": METADATA, "trainer/__0_0.distcp": "x"}), 60, "damaged", "trainer/: 1 "),
        (
            below("step_4", TRAINER, ORCHESTRATOR, {"trainer/__1_0.distcp": ""}),
            60,
            "damaged",
            "trainer/: 1 shards with content, its metadata lists 2",
        ),
        (below("step_4", TRAINER, {"orchestrator/progress.pt": ""}), 60, "damaged", "orchestrator/: progress.pt is em"),
        (below("step_4", TRAINER, ORCHESTRATOR, {"trainer/.metadata": ""}), 60, "damaged", "trainer/: .metadata is em"),
        (below("step_4", TRAINER, ORCHESTRATOR, {"trainer/.metadata": "own form"}), 60, "complete", None),
    ],
)
def test_state(tmp_path: Path, files: dict[str, Any], age: float, state: str, problem: str | None) -> None:
    (found,) = states(write(tmp_path, files), age)
    assert (found.step, found.state) == (4, state)
    assert (found.problem or "").startswith(problem or "")
    assert (found.problem is None) == (problem is None)
    assert found.changed == NOW - age


def test_empty_directory_is_being_written_until_it_is_old(tmp_path: Path) -> None:
    (tmp_path / "checkpoints/step_3").mkdir(parents=True)
    assert [(s.state, s.problem) for s in states(tmp_path)] == [("writing", "nothing is in it yet")]
    assert [s.state for s in states(tmp_path, 3600)] == ["stuck"]


def test_what_each_half_holds(tmp_path: Path) -> None:
    files = below("step_4", TRAINER, ORCHESTRATOR, {"trainer/dataloader/rank_0.pt": "four"})
    (found,) = states(write(tmp_path, files))
    trainer, orchestrator = found.halves
    assert (trainer.name, trainer.whole, trainer.files, trainer.shards, trainer.expected_shards) == (
        "trainer",
        True,
        4,
        2,
        2,
    )
    assert trainer.bytes == len(METADATA) + len("shard" + "shard!" + "four")
    assert (orchestrator.name, orchestrator.files, orchestrator.bytes, orchestrator.shards) == ("orchestrator", 1, 2, 0)
    assert found.bytes == trainer.bytes + 2


def test_what_this_project_writes_passes_through_all_states(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    told = []
    for half, files in (("orchestrator", ORCHESTRATOR), ("trainer", TRAINER)):
        directory = ck.begin_half(root, 6, half)
        told += [state.state for state in states(tmp_path)]
        write(directory, {name.partition("/")[2]: content for name, content in files.items()})
        ck.publish_half(root, 6, half)
        told += [state.state for state in states(tmp_path)]
    assert told == ["writing", "half", "writing", "complete"]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_real_metadata_lists_its_shards(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.distributed.checkpoint import state_dict_saver

    directory = tmp_path / "checkpoints/step_1/trainer"
    state_dict_saver.save({"w": torch.ones(3)}, checkpoint_id=directory, no_dist=True)
    (found,) = states(tmp_path, documents={"sft": {}})
    assert (found.state, found.halves[0].shards, found.halves[0].expected_shards) == ("complete", 1, 1)
    (directory / "__0_0.distcp").unlink()
    assert [state.state for state in states(tmp_path, documents={"sft": {}})] == ["damaged"]


def test_fine_tuning_has_the_trainers_half_alone(tmp_path: Path) -> None:
    assert [s.state for s in states(write(tmp_path, below("step_4", TRAINER)), documents={"sft": {}})] == ["complete"]


def test_other_names_are_no_checkpoints(tmp_path: Path) -> None:
    names = ("step_-1", "step_1.bak", "step_", "latest", f"step_{'9' * 30}", ".nfs001", "step_1.tmp.tmp")
    run = write(tmp_path, {f"checkpoints/{name}/trainer/.metadata": "x" for name in names})
    write(run, {"checkpoints/step_8": "a file"})
    assert states(run) == []


def test_link_out_of_the_checkpoints_is_not_followed(tmp_path: Path) -> None:
    far = write(tmp_path / "far", {"trainer/.metadata": METADATA})
    run = write(tmp_path / "run", below("step_1", ORCHESTRATOR))
    (run / "checkpoints/step_2").symlink_to(far)
    found = read_checkpoints(run, {}, NOW)
    assert [state.step for state in found.states] == [1]
    assert found.trouble == ("checkpoints/step_2: a link that leaves the run directory: not followed",)


def test_directory_that_the_configuration_names_is_looked_at_too(tmp_path: Path) -> None:
    far = {"trainer": {"ckpt": {"output_dir": str(tmp_path / "far")}}}
    run = write(tmp_path / "run", below("step_4", ORCHESTRATOR))
    write(tmp_path / "far", below("step_4", TRAINER) | below("step_8", TRAINER, ORCHESTRATOR))
    aged(tmp_path / "far", NOW - 60)
    found = read_checkpoints(aged(run, NOW - 60), far, NOW)
    assert found.roots == (run / "checkpoints", tmp_path / "far/checkpoints")
    # Of old runs only the trainer went there: the halves of one step lie apart and belong together.
    assert [(state.step, state.state) for state in found.states] == [(4, "complete"), (8, "complete")]
    assert found.states[0].path == tmp_path / "far/checkpoints/step_4"
    assert found.newest_complete == 8


def test_configured_directory_that_is_the_runs_own_is_read_once(tmp_path: Path) -> None:
    run = write(tmp_path, below("step_4", TRAINER, ORCHESTRATOR))
    documents = {"orchestrator": {"ckpt": {"output_dir": str(run)}}, "trainer": {"ckpt": {"output_dir": 5}}}
    assert len(states(run, documents=documents)) == 1


def test_retention_tells_what_stays(tmp_path: Path) -> None:
    files = {}
    for step in (10, 20, 25, 30):
        files |= below(f"step_{step}", TRAINER, ORCHESTRATOR)
    run = write(tmp_path, files | below("step_40", ORCHESTRATOR))
    aged(run, NOW - 60)
    found = read_checkpoints(run, {"trainer": {"ckpt": {"keep_last": 2, "keep_interval": 20}}}, NOW)
    assert (found.keep_last, found.keep_interval, found.newest_complete) == (2, 20, 30)
    assert {state.step: state.kept for state in found.states} == {10: False, 20: True, 25: False, 30: True, 40: None}
    assert all(state.kept is not False for state in read_checkpoints(run, {}, NOW).states)


def test_what_a_resume_set_aside_is_told_apart(tmp_path: Path) -> None:
    files = below("step_4", TRAINER, ORCHESTRATOR) | below("abandoned.attempt_2/step_9", TRAINER, ORCHESTRATOR)
    run = write(tmp_path, files)
    assert [(s.step, s.abandoned_by, s.kept) for s in states(run)] == [(4, None, True), (9, 2, None)]
    assert read_checkpoints(run, {}, NOW).newest_complete == 4


def test_nothing_there_and_wrong_types(tmp_path: Path) -> None:
    found = read_checkpoints(tmp_path, {"trainer": {"ckpt": [1]}, "rl": {"trainer": "x"}}, NOW)
    assert (found.states, found.newest_complete, found.trouble) == ((), None, ())
    os.mkfifo(tmp_path / "checkpoints")
    assert read_checkpoints(tmp_path, {}, NOW).states == ()


def test_shards_of_many_ranks_are_counted_by_content() -> None:
    assert len(set(cs._SHARD.findall(b"".join(b"x__%d_0.distcp" % rank for rank in range(512))))) == 512

"""A launch as a whole: what it writes, what it refuses, how a run goes on."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launch_stand_ins import StandIns, make_checkpoint
from prl.config import EnvServerConfig, InferenceConfig, OrchestratorConfig, RLConfig, SFTConfig, TrainerConfig
from prl.launch.events import Outcome
from prl.launch.exits import CONFIGURATION, RUN_DIRECTORY
from prl.launch.run import launch, launch_sft

TOML = """# the user's own words
max_steps = 20

[orchestrator]
batch_size = 8

[[orchestrator.train.source]]
env = { taskset = { id = "reverse-text" } }
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[StandIns]:
    made = StandIns(tmp_path)
    yield made
    made.clean_up()


def start_here(stand_ins: StandIns, /, *argv: str, **changes: Any) -> Outcome:
    """Launch in this process: for what starts no process."""
    return launch(RLConfig.model_validate({**stand_ins.config, **changes}), argv=argv)


def snapshot(root: Path) -> dict[str, bytes | str]:
    """Content of every file and target of every link below ``root``."""
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def test_a_dry_run_explains_itself_and_starts_nothing(run: StandIns, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TOML)
    config = {**run.config, **tomllib.loads(TOML)}
    outcome = start_here(run, "@", str(file), "--run.name", "made up", "--dry-run", **config, dry_run=True)
    assert (outcome.exit_code, outcome.phase) == (0, "dry run")
    attempt = run.run_dir / "configs" / "attempt_1"
    assert (attempt / "command.txt").read_text() == f"rl @ {file} --run.name 'made up' --dry-run\n"
    assert (attempt / "rl.toml").read_text() == TOML
    environment = json.loads((attempt / "environment.json").read_text())
    assert environment["packages"]["prl"]
    assert environment["seeds"]["trainer.seed"] == 0
    assert {"git", "host", "python", "cwd", "environment"} <= set(environment)
    assert (run.run_dir / "configs" / "latest").readlink() == Path("attempt_1")
    assert not (run.run_dir / "launcher").exists()
    assert list(run.pids.iterdir()) == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_a_run_is_made_of_is_looked_at_first(run: StandIns, tmp_path: Path, dry_run: bool) -> None:
    """Also by a dry run: it would promise what cannot be kept."""
    source = {"env": {"taskset": {"id": "no-such-game"}}}
    outcome = start_here(run, dry_run=dry_run, orchestrator={"batch_size": 8, "train": {"source": [source]}})
    assert (outcome.exit_code, outcome.phase) == (CONFIGURATION, "refused")
    sft = SFTConfig.model_validate(
        {"model": run.config["model"], "data": {"path": str(tmp_path / "absent.jsonl")}, "dry_run": dry_run}
    )
    outcome = launch_sft(sft, argv=[])
    assert outcome.exit_code == CONFIGURATION
    assert "data.path" in (outcome.cause or "")
    file = tmp_path / "file"
    file.touch()
    for changes in ({"output_dir": str(file / "runs")}, {"ckpt": {"output_dir": str(file)}}):
        outcome = start_here(run, dry_run=dry_run, **changes)
        assert outcome.exit_code == RUN_DIRECTORY
        assert f"output_dir = '{file}" in (outcome.cause or "")
    outcome = start_here(run, dry_run=dry_run, output_dir="/proc/none")
    assert outcome.exit_code == RUN_DIRECTORY
    assert "output_dir = '/proc/none'" in (outcome.cause or "")
    assert not run.run_dir.exists()


def test_resolved_files_load_in_their_components_and_agree(run: StandIns) -> None:
    start_here(run, dry_run=True, deployment={"num_train_gpus": 2})
    resolved = run.run_dir / "configs" / "attempt_1" / "resolved"

    def load(cls: Any, name: str) -> Any:
        return cls.model_validate_json((resolved / name).read_text())

    whole, orchestrator = load(RLConfig, "rl.json"), load(OrchestratorConfig, "orchestrator.json")
    trainer, inference = load(TrainerConfig, "trainer.json"), load(InferenceConfig, "inference.json")
    server = load(EnvServerConfig, "envs/train/word-game.json")
    assert whole.run_dir == orchestrator.output_dir == trainer.output_dir == inference.output_dir == run.run_dir
    assert {m.model.name for m in (orchestrator, trainer, inference)} == {run.config["model"]["name"]}
    assert orchestrator.rollout_transport == trainer.rollout_transport
    assert orchestrator.model.client.base_url == f"http://127.0.0.1:{inference.server.port}/v1"
    assert orchestrator.model.client.admin_base_url == [f"http://127.0.0.1:{inference.engine_port}"]
    assert orchestrator.num_train_ranks == 2
    assert orchestrator.max_steps == trainer.max_steps == 5
    assert server.address_file == orchestrator.env_address_dir / "train" / "word-game.address"
    assert server.tokenizer == run.run_dir / "tokenizer"
    assert (orchestrator.run_name, whole.dry_run, whole.clean) == ("made-up", False, False)


def test_a_dry_run_touches_nothing_older(run: StandIns) -> None:
    assert run.run() == 0
    make_checkpoint(run.run_dir / "checkpoints", 3)
    make_checkpoint(run.run_dir / "checkpoints", 4)
    (run.run_dir / "checkpoints" / "step_5.tmp").mkdir()
    (run.run_dir / "broadcasts" / "step_4").mkdir(parents=True)
    (run.run_dir / "broadcasts" / "step_4" / ".finished").touch()
    before = snapshot(run.run_dir)
    for changes in ({"resume": {"step": 3}}, {"clean": True}):
        assert start_here(run, dry_run=True, **changes).exit_code == 0
    after = snapshot(run.run_dir)
    assert {name: after.get(name) for name in before} == before
    assert (run.run_dir / "checkpoints" / "step_5.tmp").is_dir()
    added = set(after) - set(before)
    assert added
    assert all(name.startswith(("configs/attempt_2/", "configs/attempt_3/")) for name in added)


def test_a_dry_run_says_how_to_start(run: StandIns, caplog: pytest.LogCaptureFixture) -> None:
    del run.config["run"]
    file = run.root / "a.toml"
    file.write_text(TOML)
    with caplog.at_level("INFO", "prl"):
        outcome = start_here(run, "@", str(file), "--dry-run", dry_run=True)
    assert outcome.run_dir is not None
    name = outcome.run_dir.name
    assert name.startswith("word-game--model--")
    assert f"rl @ {file} --run.name {name}" in caplog.text
    assert "Dry run complete." in caplog.text


def test_a_used_directory_is_refused_and_left_alone(run: StandIns, caplog: pytest.LogCaptureFixture) -> None:
    assert run.run() == 0
    before = snapshot(run.run_dir)
    outcome = start_here(run)
    assert (outcome.exit_code, outcome.phase) == (RUN_DIRECTORY, "refused")
    assert "--resume" in caplog.text
    assert snapshot(run.run_dir) == before


def test_clean_begins_anew(run: StandIns) -> None:
    assert run.run() == 0
    (run.run_dir / "monitors").mkdir()
    run.config["clean"] = True
    assert run.run() == 0
    assert not (run.run_dir / "monitors").exists()
    assert [path.name for path in sorted((run.run_dir / "logs").iterdir())] == ["attempt_1", "latest"]


def test_a_resumed_run_goes_on_in_a_new_attempt(run: StandIns) -> None:
    assert run.run() == 0
    first_log = (run.run_dir / "logs" / "attempt_1" / "launcher.log").read_bytes()
    for step in (2, 4):
        make_checkpoint(run.run_dir / "checkpoints", step)
    (run.run_dir / "trainer_step").write_text("4\n")
    run.config["resume"] = {"step": 2}
    assert run.run() == 0
    assert (run.run_dir / "logs" / "latest").readlink() == Path("attempt_2")
    assert (run.run_dir / "logs" / "attempt_1" / "launcher.log").read_bytes() == first_log
    resolved = run.run_dir / "configs" / "latest" / "resolved"
    for name in ("rl", "trainer", "orchestrator"):
        assert json.loads((resolved / f"{name}.json").read_text())["resume"] == {"step": 2, "dir": None}
    status = run.status()
    assert (status["attempt"], status["step"], status["phase"]) == (2, 2, "finished")
    log = (run.run_dir / "logs" / "attempt_2" / "launcher.log").read_text()
    assert "INFO Resuming from step 2" in log
    assert (run.run_dir / "checkpoints" / "abandoned.attempt_2" / "step_4").is_dir()
    run.config["resume"] = {}
    assert run.run() == 0
    assert run.status()["step"] == 2  # the abandoned checkpoint is not the newest any more


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"resume": {}}, RUN_DIRECTORY, "no complete checkpoint"),
        ({"resume": {}, "run": {}}, CONFIGURATION, "--run.name"),
        ({"model": {"name": "/absent/model"}}, CONFIGURATION, "no such directory"),
    ],
)
def test_refusals_start_and_write_nothing(
    run: StandIns, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], code: int, message: str
) -> None:
    assert start_here(run, **changes).exit_code == code
    assert message in caplog.text
    assert not (run.root / "outputs").exists()


def test_max_steps_reached_is_refused_not_a_hang(run: StandIns, caplog: pytest.LogCaptureFixture) -> None:
    make_checkpoint(run.run_dir / "checkpoints", 5)
    assert start_here(run, resume={}).exit_code == CONFIGURATION
    assert "nothing is left to train" in caplog.text


def test_two_runs_on_one_host_have_ports_of_their_own(run: StandIns, tmp_path: Path) -> None:
    run.components = {role: {"stay": True} for role in ("inference", "env_server", "orchestrator", "trainer")}
    run.start()
    run.pid("trainer")
    (tmp_path / "second").mkdir()
    other = StandIns(tmp_path / "second")
    assert other.run() == 0
    assert not set(run.status()["ports"].values()) & set(other.status()["ports"].values())
    resolved = json.loads((other.run_dir / "configs" / "latest" / "resolved" / "inference.json").read_text())
    assert resolved["server"]["port"] == other.status()["ports"]["inference"]
    assert resolved["backend_port"] == other.status()["ports"]["engine"]


def test_a_run_has_its_tokenizer(run: StandIns) -> None:
    assert run.run() == 0
    assert (run.run_dir / "tokenizer" / "tokenizer.json").is_file()


def test_a_supervised_run_resolves_its_one_file(run: StandIns, tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"messages": []}\n')
    config = SFTConfig.model_validate(
        {
            **{key: run.config[key] for key in ("output_dir", "run", "model")},
            "data": {"path": str(tmp_path / "data.jsonl")},
            "dry_run": True,
        }
    )
    assert launch_sft(config, argv=["--dry-run"]).exit_code == 0
    file = run.run_dir / "configs" / "attempt_1" / "resolved" / "sft.json"
    resolved = SFTConfig.model_validate_json(file.read_text())
    assert resolved.run_dir == run.run_dir
    assert resolved.model.name == run.config["model"]["name"]

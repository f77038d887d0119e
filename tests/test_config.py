"""Configuration: composed of files and command line, shared among components, refused with key and value."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from prl.config import USAGE_EXIT, CkptConfig, EnvServerConfig, RLConfig, SFTConfig, checkpoint_root, load_config

SOURCE = {"env": {"taskset": {"id": "word-game"}}}
BASE = """
max_steps = 20

[orchestrator]
batch_size = 16
group_size = 4

[[orchestrator.train.source]]
env = { taskset = { id = "word-game" } }
"""


def rl(orchestrator: dict[str, Any] | None = None, **changes: Any) -> RLConfig:
    return RLConfig.model_validate({"orchestrator": {"train": {"source": [SOURCE]}, **(orchestrator or {})}, **changes})


def refusal(orchestrator: dict[str, Any] | None = None, **changes: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        rl(orchestrator, **changes)
    return str(refused.value)


@pytest.fixture
def base(tmp_path: Path) -> str:
    path = tmp_path / "base.toml"
    path.write_text(BASE)
    return str(path)


def test_later_files_and_the_command_line_are_stronger(base: str, tmp_path: Path) -> None:
    second = tmp_path / "second.toml"
    second.write_text("max_steps = 30\nseq_len = 512\n[trainer.optim]\nlr = 1e-4\n")
    part = tmp_path / "part.json"
    part.write_text(json.dumps({"batch_size": 32}))
    args = ["@", base, "@", str(second), "--orchestrator", "@", str(part), "--max-steps", "40", "--ckpt.interval", "10"]
    config = load_config(RLConfig, args, prog="rl")
    assert config.max_steps == config.trainer.max_steps == config.orchestrator.max_steps == 40
    assert config.orchestrator.seq_len == config.trainer.model.seq_len == 512
    assert (config.orchestrator.batch_size, config.orchestrator.group_size) == (32, 4)  # tables merge
    assert config.trainer.optim.lr == 1e-4
    assert config.trainer.ckpt is not None
    assert config.trainer.ckpt.interval == 10


def test_blocks_are_switched_on_and_off_bare(base: str) -> None:
    config = load_config(RLConfig, ["@", base, "--resume", "--no-monitors.file", "--dry-run"], prog="rl")
    assert config.resume is not None
    assert config.resume.step is None
    assert config.monitors.file is None
    assert config.orchestrator.monitors.file is None
    assert config.dry_run


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--orchestrator.batch-sise", "64"], ["batch_sise"]),
        (["--trainer.optim.lr", "fast"], ["trainer.optim.lr", "fast"]),
        (["--log.level", "loud"], ["log.level", "loud", "warning"]),
        (["--orchestrator.train.sampling.top-p", "0.9"], ["top_p = 0.9", "1.0"]),
        (["@", "absent.toml"], ["absent.toml"]),
    ],
)
def test_a_wrong_word_is_64_and_says_which(
    base: str, args: list[str], told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        load_config(RLConfig, ["@", base, *args], prog="rl")
    assert stop.value.code == USAGE_EXIT
    said = capsys.readouterr().err
    assert all(part in said for part in told), said


def test_shared_values_fill_the_components() -> None:
    config = rl(model={"name": "made-up"}, log={"level": "debug"}, ckpt={"interval": 5})
    for component in (config.orchestrator, config.trainer, config.inference):
        assert component.model.name == "made-up"
        assert component.log.level == "debug"
    assert config.orchestrator.ckpt == config.trainer.ckpt == config.ckpt


def test_a_value_given_to_one_component_becomes_that_of_its_pair() -> None:
    config = rl({"rollout_transport": {"port": 6000}})
    assert config.trainer.rollout_transport.port == config.rollout_transport.port == 6000


@pytest.mark.parametrize(
    ("orchestrator", "changes", "told"),
    [
        ({"batch_size": 10, "group_size": 4}, {}, ["batch_size = 10", "group_size = 4", "multiple"]),
        ({"group_size": 8, "batch_size": 8, "concurrency": {"max_inflight": 4}}, {}, ["max_inflight = 4", "8"]),
        ({"max_steps": 5}, {"max_steps": 6}, ["orchestrator.max_steps = 5", "max_steps = 6"]),
        ({}, {"model": {"name": "a"}, "trainer": {"model": {"name": "b"}}}, ["'b'", "'a'"]),
        ({"seq_len": 4096}, {"trainer": {"model": {"seq_len": 64}}}, ["trainer.model.seq_len = 64", "4096"]),
        ({}, {"trainer": {"scheduler": {"type": "cosine"}}}, ["cosine", "max_steps"]),
        ({}, {"max_steps": 5, "resume": {"step": 5}}, ["resume.step = 5", "max_steps = 5"]),
        ({}, {"resume": {"step": 5, "dir": "x/step_4"}}, ["resume.step = 5", "resume.dir = x/step_4"]),
        ({}, {"env_vars": {"PRL_RUN_ID": "x"}}, ["PRL_RUN_ID"]),
        ({}, {"inference": {"server": {"port": 5556}}}, ["5556", "rollout_transport.port"]),
        ({}, {"inference": {"backend_port": 8000}}, ["backend_port = 8000"]),
        ({}, {"monitors": {"file": {"path": "../m.jsonl"}}}, ["'../m.jsonl'", "file name"]),
        ({"train": {"source": []}}, {}, ["source"]),
        ({"train": {"source": [SOURCE, SOURCE]}}, {}, ["'word-game', 'word-game'", "name of its own"]),
        ({"train": {"source": [{**SOURCE, "name": "agg"}]}}, {}, ["'agg'"]),
        ({"train": {"source": [{"env": {"id": "x"}}]}}, {}, ["taskset.id"]),
        ({"train": {"source": [SOURCE], "sampling": {"extra_body": {"min_p": 0.1}}}}, {}, ["min_p", "truncate"]),
    ],
)
def test_contradictions_are_refused(orchestrator: dict[str, Any], changes: dict[str, Any], told: list[str]) -> None:
    message = refusal(orchestrator, **changes)
    assert all(part in message for part in told), message


def test_a_source_is_named_by_its_taskset() -> None:
    server = EnvServerConfig(**SOURCE, name="x", address_file=Path("x.address"))
    assert server.split == "train"
    config = rl({"train": {"source": [{"env": {"taskset": {"id": "org/word-game@1.2"}}}]}})
    assert config.orchestrator.train.source[0].name == "word-game"


def test_what_was_resolved_loads_again(base: str) -> None:
    config = load_config(RLConfig, ["@", base, "--ckpt", "--run.name", "x"], prog="rl")
    assert RLConfig.model_validate_json(config.model_dump_json()) == config


def test_supervised_runs_refuse_a_resume_beyond_the_end(tmp_path: Path) -> None:
    values: dict[str, Any] = {"data": {"path": tmp_path / "d.jsonl"}, "max_steps": 5, "resume": {"step": 5}}
    with pytest.raises(ValidationError, match=r"resume\.step = 5 with max_steps = 5"):
        SFTConfig.model_validate(values)


def test_supervised_runs_refuse_what_the_launcher_sets_itself(tmp_path: Path) -> None:
    values: dict[str, Any] = {"data": {"path": tmp_path / "d.jsonl"}, "env_vars": {"PRL_RUN_NAME": "x"}}
    with pytest.raises(ValidationError, match="PRL_RUN_NAME"):
        SFTConfig.model_validate(values)


def test_checkpoints_lie_where_they_were_asked_to(tmp_path: Path) -> None:
    assert checkpoint_root(None, tmp_path) == tmp_path / "checkpoints"
    assert checkpoint_root(CkptConfig(output_dir=tmp_path / "big"), tmp_path) == tmp_path / "big" / "checkpoints"


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.parent.glob("examples/*/*.toml")), ids=str)
def test_the_examples_are_valid(path: Path) -> None:
    cls = SFTConfig if path.stem == "sft" else RLConfig
    cls.model_validate(tomllib.loads(path.read_text()))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("latin.toml", b'# a\nx = "\xe9"\n', "latin.toml line 2: not UTF-8"),
        ("marked.toml", b"\xef\xbb\xbfmax_steps = 3\n", "starts with a byte order mark"),
        ("broken.toml", b"max_steps =\n", "broken.toml"),
        ("list.json", b"[1]", "must be one JSON object, not list"),
        ("broken.json", b"{", "broken.json"),
        ("deep.json", b"[" * 100_000, "deep.json"),
        ("x.ini", b"", "Supported"),
    ],
)
def test_a_file_that_cannot_be_read_is_64_and_named(
    tmp_path: Path, name: str, content: bytes, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    for args in (["@", str(tmp_path / name)], ["--trainer", f"@{tmp_path / name}"]):
        assert told in refused_words(args, capsys)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--orchestrator.train.source", "{bad json"], "--orchestrator.train.source {bad json: not JSON"),
        (["--ckpt", "[1"], "[1"),
        (["@"], "@ must be followed"),
        (["@", "/"], "/: Is a directory"),
        (["--run.name", "caf\udce9"], "not UTF-8"),
        (["--run.name", "\ud800"], "not UTF-8"),
        (["--trainer.optim.lr", "inf"], "--trainer.optim.lr: Input should be a finite number"),
        (["--trainer.optim.lr", "nan"], "--trainer.optim.lr: Input should be a finite number"),
        (
            ["--orchestrator.train.source", '[{"env": {"taskset": {"id": "x", "hard": [1e999]}}}]'],
            "env.taskset.hard[0]",
        ),
        (["--orchestrator.batch-sise", "4"], "did you mean `--orchestrator.batch_size`?"),
        (["--orchestrator.train.source", '[{"environ": {}}]'], "did you mean `--orchestrator.train.source[0].env`?"),
        (["--trainer.scheduler.type", "linear", "--trainer.scheduler.warmup_stps", "1"], "warmup_steps`?"),
        (["--run.name", "a/b"], "run.name = 'a/b'"),
        (["--run.name", ".."], "run.name = '..'"),
        (["--run.name", "a\nb"], r"run.name = 'a\nb'"),
        (["--run.name", "a\x1b[2Jb"], "run.name"),
        (["--run.name", "é" * 101], "200 bytes"),
        (["--run.dir", "a/../b"], "run.dir = 'a/../b'"),
        (["--run.dir", "/a"], "run.dir = '/a'"),
        (["--run.dir", "a/\tb"], "run.dir"),
    ],
)
def test_whatever_the_library_lets_through_is_told_in_words(
    base: str, args: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused_words(["@", base, *args], capsys)


def refused_words(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        load_config(RLConfig, args, prog="rl")
    assert stop.value.code == USAGE_EXIT
    said = capsys.readouterr().err
    assert said.startswith("rl: ")
    assert "nothing was started" in said
    return said

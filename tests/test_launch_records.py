"""What an attempt says about itself."""

from pathlib import Path

import pytest

from prl.config import ResumeConfig
from prl.launch.directory import Attempt, new_attempt
from prl.launch.records import command_line, root_files, start_command, write_records
from prl.launch.surroundings import masked
from prl.rundir.layout import RunLayout


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return new_attempt(RunLayout(tmp_path / "run"))


def test_the_command_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH", raising=False)
    argv = ["@", "my file.toml", "--run.name", "x"]
    assert command_line("rl", argv) == "rl @ 'my file.toml' --run.name x"
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    assert command_line("rl", argv) == "uv run rl @ 'my file.toml' --run.name x"


def test_the_first_to_write_the_command_wins(attempt: Attempt) -> None:
    for argv in (["first"], ["second"]):
        write_records(attempt, "rl", argv, {}, {})
    assert (attempt.configs / "command.txt").read_text().split()[-1] == "first"


def test_root_files_are_told_from_those_of_a_part() -> None:
    argv = ["@", "a.toml", "--trainer", "@", "part.toml", "--max-steps", "3", "@", "b.toml", "@"]
    assert root_files(argv) == [Path("a.toml"), Path("b.toml")]


def test_several_files_are_kept_under_headings(attempt: Attempt, tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text("max_steps = 1\n")
    second.write_text("seq_len = 64\n")
    write_records(attempt, "rl", ["@", str(first), "@", str(second)], {"envs/train/x": ResumeConfig(step=1)}, {})
    text = (attempt.configs / "rl.toml").read_text()
    assert text == f"# @ {first}\nmax_steps = 1\n\n# @ {second}\nseq_len = 64\n"
    assert (attempt.resolved / "envs" / "train" / "x.json").is_file()


def test_what_cannot_be_told_leaves_no_half_of_an_attempt(attempt: Attempt, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("max_steps = 1\n")
    before = sorted(attempt.configs.rglob("*"))
    with pytest.raises(ValueError, match="Out of range float"):
        write_records(attempt, "rl", ["@", str(file)], {"x": ResumeConfig()}, {"load": float("inf")})
    assert sorted(attempt.configs.rglob("*")) == before


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["@", "a.toml", "--dry-run"], "rl @ a.toml"),
        (["--dry_run", "true", "@", "a.toml"], "rl @ a.toml"),
        (["@", "a.toml"], "rl @ a.toml --no-dry-run"),
    ],
)
def test_the_command_that_a_dry_run_prepared(argv: list[str], command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH", raising=False)
    assert start_command("rl", argv, "made-up", named=True) == command
    assert start_command("rl", argv, "made-up", named=False) == f"{command} --run.name made-up"


def test_secrets_do_not_reach_the_records() -> None:
    assert masked({"WANDB_API_KEY": "0123abcd", "HF_HOME": "/data", "PRL_PROXY": "http://me:pass@host/"}) == {
        "HF_HOME": "/data",
        "PRL_PROXY": "http://me:***@host/",
        "WANDB_API_KEY": "***",
    }

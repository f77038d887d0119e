"""A recorded command: taken apart, changed, and quoted so that a shell reads the same words again."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.watch.launch_command import CommandError, LaunchCommand, parse_command, shell_line


@pytest.mark.parametrize(
    ("line", "start", "program"),
    [
        ("rl @ rl.toml", ("rl",), "rl"),
        ("uv run rl @ rl.toml", ("uv", "run", "rl"), "rl"),
        ("uv run --extra gpu --no-sync sft @ sft.toml", ("uv", "run", "--extra", "gpu", "--no-sync", "sft"), "sft"),
        ("/opt/venv/bin/rl @ rl.toml", ("/opt/venv/bin/rl",), "rl"),
        ("python3.11 -m prl.cli.sft @ sft.toml", ("python3.11", "-m", "prl.cli.sft"), "sft"),
    ],
)
def test_how_the_program_is_started(line: str, start: tuple[str, ...], program: str) -> None:
    command = parse_command(line)
    assert (command.start, command.program) == (start, program)
    assert command.line == line


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "it is empty"),
        ("rm -rf / rl", "it starts neither rl nor sft"),
        ("uv run python train.py @ rl", "it starts neither"),
        ("rl @ 'rl.toml", "its quotes do not close"),
    ],
)
def test_what_is_no_launch(line: str, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        parse_command(line)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("rl @ a.toml --resume", "rl @ a.toml"),
        ("rl @ a.toml --resume.step 4 --max-steps 9", "rl @ a.toml --max-steps 9"),
        ("rl --resume.dir runs/x/step_4 @ a.toml", "rl @ a.toml"),
        ("rl --resume.step=4 @ a.toml", "rl @ a.toml"),
        ("rl --resume @ resume.toml @ a.toml", "rl @ a.toml"),
        ("rl --resume @resume.toml --no-clean @ a.toml", "rl @ a.toml"),
        ("rl @ a.toml --clean", "rl @ a.toml"),
        ("rl @ a.toml --clean true --dry_run false", "rl @ a.toml"),
        ("rl @ a.toml --dry-run --trainer @ t.toml", "rl @ a.toml --trainer @ t.toml"),
        ("rl --no-clean @ a.toml", "rl @ a.toml"),
        ("rl @ a.toml --resume-later 3", "rl @ a.toml --resume-later 3"),
        ("""rl @ a.toml --resume '{"step": 4}'""", "rl @ a.toml"),
    ],
)
def test_options_that_a_restart_replaces_go(line: str, left: str) -> None:
    assert parse_command(line).without("resume", "clean", "dry_run").line == left


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("rl --run.name a", "a"),
        ("rl --run.name=a", "a"),
        ("rl --run.name a --run.name b", "b"),
        ("rl --run.name", None),
        ("rl --run.names a", None),
        ("rl @ run.name", None),
    ],
)
def test_value_of_an_option(line: str, value: str | None) -> None:
    assert parse_command(line).value("run.name") == value
    assert parse_command(line.replace("run.name", "output_dir")).value("output_dir") == value
    assert parse_command(line.replace("run.name", "output-dir")).value("output_dir") == value


def test_files() -> None:
    command = parse_command("rl @ a.toml @ b.toml --trainer @ t.toml --orchestrator @o.toml")
    assert command.root_files == ["a.toml", "b.toml"]
    assert command.files == ["a.toml", "b.toml", "t.toml", "o.toml"]


def test_a_bare_name_is_started_by_the_interpreter_that_ran_it() -> None:
    assert parse_command("rl @ a.toml").by("/v/bin/python").line == "/v/bin/python -m prl.cli.rl @ a.toml"
    for line in ("uv run rl @ a.toml", "/opt/venv/bin/rl @ a.toml"):
        assert parse_command(line).by("/v/bin/python").line == line


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=4))
def test_quoted_words_are_one_harmless_line_that_says_the_same(words: list[str]) -> None:
    line = shell_line(words)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in line)
    if "$'" not in line:
        assert shlex.split(line) == words


def test_bash_reads_the_words_again() -> None:
    words = ["plain", "two words", "it's", "a\nb\x1b[2J\t\\", "$(touch /tmp/x); `id` && rm", "\u2028\u202e ü", ""]
    line = f"printf '%s\\0' {shell_line(words)}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout.decode().split("\0")[:-1] == words


def test_a_command_survives_being_recorded_again() -> None:
    command = LaunchCommand(("rl",), ("@", "my file.toml", "--run.name", "it's"), "rl")
    assert parse_command(command.line) == command

"""``prl logs``."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from prl.cli.logs import logs as command

GOLDEN = Path(__file__).parent / "golden"
"""``PRL_UPDATE_GOLDEN=1`` writes the answers anew: read the difference."""

HEAD = "--- 2026-11-29 +0000 ---\n"
STEP = (
    "Step 7 |   1.5s | Loss nan | Entropy 0.4000 | LR 1.00e-06 | Throughput 900 tokens/s | MFU 1.0% | Peak Mem. 1.0 GiB"
)
TRACE = (
    "Traceback (most recent call last):\n  File 'x.py', line 1\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB\n"
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    logs = tmp_path / "run/logs/attempt_1"
    (logs / "envs/train").mkdir(parents=True)
    (logs / "trainer.log").write_text(
        f"{HEAD}10:00:00    INFO Starting\n10:00:02 SUCCESS {STEP}\n10:00:05   ERROR Fatal error in train\n{TRACE}"
    )
    (logs / "orchestrator.log").write_text(HEAD + "".join(f"10:00:0{second} WARNING waiting\n" for second in (3, 4)))
    (logs / "envs/train/gsm.log").write_text(
        f"{HEAD}10:00:01    INFO \x1b]0;title\x07a\x1b[2Jb WANDB_API_KEY={'0' * 40}\n"
    )
    return tmp_path / "run"


def call(*args: object) -> tuple[int, Result]:
    result = CliRunner().invoke(command, [str(arg) for arg in args], standalone_mode=False)
    return (result.return_value or 0 if result.exception is None else 64), result


def answer(*args: object) -> dict[str, Any]:
    code, result = call(*args, "--json")
    assert code == 0, result.exception
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


def test_lines_of_all_components_by_time(run: Path) -> None:
    code, result = call(run)
    lines = result.stdout.splitlines()
    assert code == 0
    assert [line.split()[2] for line in lines if line[:2].isdigit()] == ["INFO", "INFO", "SUCCESS", "WARNING", "ERROR"]
    assert "orchestrator: waiting  [x2, until 11-" in result.stdout
    assert "  File 'x.py', line 1" in lines
    assert "\x1b" not in result.stdout  # nothing a model wrote moves a cursor, and there is no terminal to colour for
    assert "WANDB_API_KEY=***" in result.stdout


@pytest.mark.parametrize(
    ("args", "messages"),
    [
        (("--level", "error"), ["Fatal error in train"]),
        (("--component", "envs"), ["ab WANDB_API_KEY=***"]),
        (("--grep", "out of MEMORY"), ["Fatal error in train"]),
        (("--grep", "^10:00:0[01]", "--regex"), ["Starting", "ab WANDB_API_KEY=***"]),
        (("--since", "2026-11-29T10:00:03+00:00", "--until", "2026-11-29T10:00:04+00:00"), ["waiting"]),
        (("--last", "1"), ["Fatal error in train"]),
        (("--rank", "0"), []),
        (("--since", "2026-11-30T00:00:00+00:00"), []),
    ],
)
def test_what_was_asked_for(run: Path, args: tuple[str, ...], messages: list[str]) -> None:
    assert [row["message"] for row in answer(run, *args)["rows"]] == messages


def test_pages_by_cursor(run: Path) -> None:
    newest = answer(run, "--limit", 3)
    older = answer(run, "--limit", 3, "--cursor", newest["older"])
    assert [len(page["rows"]) for page in (newest, older)] == [3, 2]
    assert (newest["truncated"], older["truncated"], older["older"]) == (True, False, None)
    with (run / "logs/attempt_1/trainer.log").open("a") as file:
        file.write("10:00:09    INFO more\n")
    assert [row["message"] for row in answer(run, "--after", newest["newer"])["rows"]] == ["more"]


def test_known_failures_with_cause_and_fix(run: Path) -> None:
    code, result = call(run, "--signatures")
    assert code == 0
    assert "fatal cuda.oom (CUDA out of memory)" in result.stdout
    assert "logs/attempt_1/trainer.log:" in result.stdout
    rows = answer(run, "--signatures")["rows"]
    assert [(row["id"], row["consequence_of"]) for row in rows] == [("cuda.oom", None), ("prl.fatal", "cuda.oom")]
    code, result = call(run, "--signatures", "--component", "envs")
    assert result.stdout == "No known failure in the logs.\n"


def test_values_of_one_kind_of_line(run: Path) -> None:
    found = answer(run, "--values", "trainer_step")
    (row,) = found["rows"]
    assert (row["component"], row["values"]["step"], row["values"]["time"], row["values"]["loss"]) == (
        "trainer", 7, 1.5, None,
    )  # fmt: skip
    assert found["nonfinite"] == ["loss"]
    assert row["time"] - row["values"]["time"] > 1.7e9
    _, result = call(run, "--values", "trainer_step")
    assert "step=7" in result.stdout


def without_what_varies(value: dict[str, Any], run: Path) -> dict[str, Any]:
    value = {name: entry for name, entry in value.items() if name not in ("as_of", "older", "newer")}
    loaded: dict[str, Any] = json.loads(json.dumps(value).replace(str(run), "/runs/run"))
    return loaded


@pytest.mark.parametrize(
    ("name", "args"), [("lines", ()), ("signatures", ("--signatures",)), ("values", ("--values", "trainer_step"))]
)
def test_form_of_the_answer(run: Path, name: str, args: tuple[str, ...]) -> None:
    found = without_what_varies(answer(run, *args), run)
    path = GOLDEN / f"logs.{name}.json"
    if os.environ.get("PRL_UPDATE_GOLDEN"):
        path.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(path.read_text())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--since", "soon"), "is no time"),
        (("--grep", "(", "--regex"), "not a regular expression"),
        (("--cursor", "x"), "not a cursor"),
        (("--values", "nothing"), "there are bcast_wait, ckpt_save"),
        (("--follow", "--signatures"), "--follow goes with none"),
        (("--cursor", "x", "--after", "y"), "not both"),
    ],
)
def test_called_wrongly(run: Path, args: tuple[str, ...], said: str) -> None:
    code, result = call(run, *args)
    assert code == 64
    assert said in str(result.exception.format_message())  # type: ignore[union-attr]


def test_followed_lines_are_one_json_each(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter(range(100))

    def wait(_seconds: float) -> None:
        if next(rounds) == 0:
            with (run / "logs/attempt_1/orchestrator.log").open("a") as file:
                file.write("10:00:08    INFO added\n10:00:09    INFO and more\n")
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("prl.cli.logs.time.sleep", wait)
    _, result = call(run, "--follow", "--json", "--last", "1")
    assert [json.loads(line)["message"] for line in result.stdout.splitlines()] == ["Fatal error in train", "added"]

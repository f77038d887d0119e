"""The verdict on one screen."""

from pathlib import Path

from prl.watch import render, status_of
from prl.watch.outward import safe, safe_tree
from sample_runs import running


def test_screen_of_a_healthy_run(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    assert render(status_of(run.root, now)).splitlines()[:3] == [
        f"reverse-text--tiny--0a1b2c3d, attempt 1  ({run.root})",
        "Healthy: running, step 12 / 40, last progress 1.0s ago",
        "",
    ]


def test_screen_shows_finding_evidence_cause_and_action(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.log("trainer", (now, "ERROR", "Fatal error in train"), "Traceback (most recent call last):", "ValueError: x")
    run.end("trainer", 1, now)
    run.write_status()
    text = render(status_of(run.root, now + 1))
    for part in (
        "Down: failing, step 12 / 40",
        "[critical] process.component-gone: trainer ended with exit code 1",
        "logs/attempt_1/trainer.log at byte ",
        "likely cause: trainer: ValueError: x",
        "what to do: ",
        "exited: trainer (pid ",
        ", exit code 1)",
    ):
        assert part in " ".join(text.split())
    assert len(text.splitlines()) < 40


def test_hostile_text_is_harmless(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    hostile = "\x1b]8;;http://x\x07\x1b[2J\u202ewandb WANDB_API_KEY=0123456789abcdef \u009b31m"
    run.log("inference", (now, "ERROR", hostile))
    run.write_status(run_name=hostile, waiting_for=hostile)
    text = render(status_of(run.root, now))
    assert "WANDB_API_KEY=***" in text
    assert not [c for c in text if c != "\n" and (ord(c) < 32 or 0x7F <= ord(c) <= 0x9F or c == "\u202e")]


def test_a_secret_hidden_by_escapes_is_masked() -> None:
    assert safe("HF_TOKEN=hf_abcde\x1b[0mfghijklmnop") == "HF_TOKEN=***"
    assert safe("a\nb\r\nc" * 3, 5) == "a b …"
    tree = {"password=hunter2": [float("nan"), 1.5, True, None, "x\x1b[2J"]}
    assert safe_tree(tree) == {"password=***": [None, 1.5, True, None, "x"]}

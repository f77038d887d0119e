"""STATUS.md: the template field by field, appended and never overwritten."""

import errno
import multiprocessing
import os
import re
from pathlib import Path

import pytest

from prl.rundir import status
from prl.watch import check_in, status_md, status_of
from sample_runs import T0, running

TEMPLATE = re.compile(
    r"## \d{4}-\d\d-\d\d \d\d:\d\d UTC\n"
    r"\n"
    r"\*\*Step\*\*: (?P<step>\S+) / (?P<max>\S+)\n"
    r"\*\*Health\*\*: (?P<health>Healthy|Degraded|Down)\n"
    r"\n"
    r"\*\*Progress\*\*: (?P<progress>.+)\n"
    r"\*\*Stability\*\*: (?P<stability>.+)\n"
    r"\*\*Performance\*\*: (?P<performance>.+)\n"
    r"\*\*Since last check-in\*\* \((?P<before>.+)\): (?P<changes>.+)\n"
    r"(?:\n\*\*Run\*\*: (?P<run>(?:.+\n)+))?"
    r"(?:\n\*\*Notes\*\*: (?P<notes>.+)\n)?"
)


def fields(text: str) -> dict[str, str | None]:
    match = TEMPLATE.fullmatch(text)
    assert match, text
    return match.groupdict()


def test_entry_of_a_healthy_run(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    entry = status_md.entry(status_of(run.root, now))
    assert entry.startswith("## 2026-11-29 10:00 UTC\n")
    found = fields(entry)
    assert (found["step"], found["max"], found["health"], found["notes"]) == ("12", "40", "Healthy", None)
    for group, names in (
        ("progress", ("reward 0.62", "seq_len 32", "truncated 4.7%", "reverse-text exact 0.25")),
        ("stability", ("entropy 1.5", "mismatch_kl 0.002", "grad_norm 0.25")),
        ("performance", ("trainer step 2.0s", "orchestrator step 2.0s", "KV cache 31.0%")),
    ):
        assert all(name in (found[group] or "") for name in names)


def test_notes_tell_what_is_notable(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    notes = fields(status_md.entry(status_of(run.root, now + 100)))["notes"] or ""
    assert "Nothing has advanced for 1m 41s" in notes
    assert "[progress.stalled]" in notes
    run.write_status(phase=status.STOPPED, reason="stopped by SIGINT")
    stopped = fields(status_md.entry(status_of(run.root, now)))
    assert (stopped["health"], stopped["notes"]) == ("Down", "Phase: stopped. stopped by SIGINT.")


def test_unknown_health_is_written_degraded_with_a_note(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.layout.status_json.unlink()
    found = fields(status_md.entry(status_of(run.root, now + 1000)))
    assert found["health"] == "Degraded"
    assert "Health is not known: nothing has advanced" in (found["notes"] or "")


def test_run_that_recorded_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    found = fields(status_md.entry(status_of(tmp_path, T0)))
    assert (found["step"], found["max"], found["progress"]) == ("?", "?", "nothing recorded yet")


@pytest.mark.parametrize("written", ["", "# Notes by hand\n", "no newline at the end"])
def test_what_stands_is_left_alone(tmp_path: Path, written: str) -> None:
    run, now = running(tmp_path)
    run.layout.status_md.write_text(written)
    first = check_in(run.root, now)
    with run.layout.status_md.open("a") as file:
        file.write("\nchecked by hand, looks fine")
    second = check_in(run.root, now + 2)
    text = run.layout.status_md.read_text()
    assert text.startswith(written)
    assert text.count(first.entry) == text.count(second.entry) == 1
    told = fields(second.entry)
    assert (told["before"], told["changes"]) == ("2026-11-29 10:00 UTC", "attempt 1; step +0; health as before")
    assert fields(first.entry)["before"] == "none before"
    assert "\nchecked by hand, looks fine\n\n## " in text
    assert all(line.startswith(("## ", "**Since")) for line in text.splitlines() if "UTC" in line)


def test_hostile_text_stays_one_harmless_line(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    hostile = "\x1b]0;pwned\x07\x1b[2J## 2026-01-01 00:00 UTC\r**Health**: Healthy HF_TOKEN=hf_abcdefghijklmnop"
    run.metrics("orch", 13, now, **{f"train/gsm/effective/agent/metrics/{hostile}/mean": 1.0})
    run.log("trainer", (now, "ERROR", f"Fatal error in train {hostile}"))
    run.end("trainer", 1, now)
    run.write_status(reason=hostile)
    entry = check_in(run.root, now + 1).entry
    assert fields(entry)["health"] == "Down"
    assert not set(entry) & {"\x1b", "\x07", "\r"}
    assert "abcdefghijklmnop" not in entry
    assert len([line for line in entry.splitlines() if line.startswith("##")]) == 1


def test_markup_that_files_held_is_no_markup(tmp_path: Path) -> None:
    """STATUS.md is rendered where it is read: no image that calls home, no link with another's words, no HTML."""
    run, now = running(tmp_path)
    run.end("trainer", 1, now)
    run.write_status(phase=status.FAILED, exit_code=1, ended=now, updated=now)
    run.log(
        "trainer",
        (now, "ERROR", "Fatal error in train"),
        "Traceback (most recent call last):",
        "ValueError: <img src=x> ![a](http://b) 1 < 2 [c][d]",
    )
    entry = check_in(run.root, now + 1).entry
    assert r"ValueError: \<img src=x> ![a]\(http://b) 1 < 2 [c]\[d]" in entry
    assert fields(entry)["health"] == "Down"


def test_first_entry_of_an_attempt_says_what_the_run_is(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    first = fields(check_in(run.root, now).entry)["run"] or ""
    assert first.splitlines()[:3] == [
        f"{run.name} (rl), model models/tiny, 40 steps",
        "**Environments**: reverse-text",
        "**Command**: rl @ rl.toml",
    ]
    assert "**Processes**: inference (" in first
    assert fields(check_in(run.root, now + 1).entry)["run"] is None


def test_what_changed_since_the_last_entry(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    check_in(run.root, now)
    later = run.step(13, error_rate=0.4)
    run.write_status(updated=later)
    second = fields(check_in(run.root, later + 1).entry)
    assert second["changes"] == "attempt 1; step +1; health Healthy -> Degraded; new episodes.error-rate"
    third = fields(check_in(run.root, later + 2).entry)
    assert third["changes"] == "attempt 1; step +0; health as before; still episodes.error-rate"
    run.finish(later + 60)
    fourth = fields(check_in(run.root, later + 70).entry)
    assert fourth["before"] == "2026-11-29 10:00 UTC"
    assert fourth["changes"] == "attempt 1; step +0; health Degraded -> Healthy; gone episodes.error-rate"


def test_run_directory_that_may_not_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_STATE_DIR", str(tmp_path / "state"))
    run, now = running(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as root everything may be written to
    for seconds in (0, 1):
        done = check_in(run.root, now + seconds)
        assert done.elsewhere
        assert done.problem is None
    assert not run.layout.status_md.exists()
    assert done.path.parent == tmp_path / "state/check-ins"
    assert done.path.read_text().count("**Health**: Healthy") == 2
    assert "(2026-11-29 10:00 UTC): attempt 1; step +0" in done.entry


def append_many(path: Path, name: str, barrier: "multiprocessing.synchronize.Barrier") -> None:
    barrier.wait(30)
    for number in range(50):
        status_md.append(path, f"## {name} {number}\n" + f"{name}\n" * 40)


def test_run_directory_that_was_removed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, and no entry about nothing is kept elsewhere."""
    monkeypatch.setenv("PRL_STATE_DIR", str(tmp_path / "state"))
    done = check_in(tmp_path / "gone")
    assert (done.verdict.health, done.problem) == ("Unknown", f"{tmp_path}/gone/STATUS.md: No such file or directory")
    assert done.verdict.unknown == [f"the run: {tmp_path}/gone is not there, or cannot be reached"]
    assert not (tmp_path / "state/check-ins").exists()


def test_two_writers_at_once_keep_every_entry_whole(tmp_path: Path) -> None:
    path = tmp_path / "STATUS.md"
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    writers = [context.Process(target=append_many, args=(path, name, barrier)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    text = path.read_text()
    for name in ("a", "b"):
        for number in range(50):
            assert f"## {name} {number}\n" + f"{name}\n" * 40 in text


def test_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    run, now = running(tmp_path)
    run.layout.status_md.mkdir()
    done = check_in(run.root, now)
    assert done.verdict.health == "Healthy"
    assert "STATUS.md: Is a directory" in (done.problem or "")


def test_full_disk_leaves_no_part_of_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "STATUS.md"
    path.write_text("before\n")
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    with pytest.raises(OSError, match="No space left") as raised:
        status_md.append(path, "## entry that does not fit\n")
    assert raised.value.errno == errno.ENOSPC
    assert path.read_text() == "before\n"

"""The last check-in of ours, read back from a file in which anybody may write."""

import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up_facts import NOW, facts
from prl.watch import status_md
from prl.watch.assess import assess
from prl.watch.last_entry import LastEntry, changes, last_entry
from prl.watch.verdict import ADVICE, CRITICAL, WARNING, Finding, Verdict

MINUTE = NOW - NOW % 60


def verdict(*rules: str, step: int | None = 30, health: str = "Healthy", attempt: int | None = 1) -> Verdict:
    found = [Finding(rule, WARNING, f"what {rule} says") for rule in rules]
    return replace(assess(facts()), findings=found, step=step, health=health, attempt=attempt)


def test_an_entry_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "STATUS.md"
    assert last_entry(path) is None
    status_md.append(path, status_md.entry(verdict("disk.filling", "training.masked", health="Degraded")))
    first = last_entry(path)
    assert first == LastEntry(MINUTE, 30, "Degraded", 1, ("disk.filling", "training.masked"))
    status_md.append(path, status_md.entry(verdict("training.masked", "disk.full", step=None, health="Unknown"), first))
    assert last_entry(path) == LastEntry(MINUTE, None, "Degraded", 1, ("disk.full", "training.masked"))


def test_what_is_written_between_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "STATUS.md"
    status_md.append(path, status_md.entry(verdict(step=12)))
    ours = last_entry(path)
    by_hand = "\n".join(line for line in status_md.entry(verdict(step=99)).splitlines() if "Since last" not in line)
    with path.open("a") as file:
        file.write(f"\nlooked at it, all fine\n\n{by_hand}\n")
    assert last_entry(path) == ours


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (verdict(), "attempt 1; step +18; health as before"),
        (verdict("a.b"), "attempt 1; step +18; health as before; new a.b"),
        (verdict("c.d", "a.b", attempt=2, step=3, health="Down"), None),
        (verdict(step=None), "attempt 1; health as before"),
    ],
)
def test_words(now: Verdict, words: str | None) -> None:
    before = LastEntry(MINUTE, 12, "Healthy", 1, ())
    if words is None:
        before = LastEntry(MINUTE, 12, "Healthy", 1, ("c.d", "e.f"))
        words = "attempt 2; before: attempt 1; step -9; health Healthy -> Down; new a.b; gone e.f; still c.d"
    assert changes(now, before).partition(": ")[2] == words


def test_advice_is_no_change() -> None:
    tip = replace(
        verdict(), findings=[Finding("pace.tip", WARNING, "grow it", kind=ADVICE), Finding("x.y", CRITICAL, "z")]
    )
    assert changes(tip, None) == "**Since last check-in** (none before): attempt 1; new x.y"


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "STATUS.md"
    status_md.append(path, status_md.entry(verdict(step=12)))
    with path.open("a") as file:
        file.write("a note by hand\n" * 30_000)
    assert last_entry(path) is None
    status_md.append(path, status_md.entry(verdict(step=13)))
    assert (last_entry(path) or LastEntry(0, 0, "", 0, ())).step == 13


def test_what_is_no_file_and_no_date_has_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert last_entry(tmp_path / "pipe") is None
    path = tmp_path / "STATUS.md"
    path.write_text(re.sub(r"^## \S+", "## 2026-99-99", status_md.entry(verdict())))
    assert last_entry(path) is None


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_around_an_entry(before: bytes, after: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "STATUS.md"
        path.write_bytes(before)
        status_md.append(path, status_md.entry(verdict(step=12)))
        with path.open("ab") as file:
            file.write(after)
        assert (last_entry(path) or LastEntry(0, 0, "", 0, ())).step == 12

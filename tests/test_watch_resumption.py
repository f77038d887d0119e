"""Whether a restart took up the work, from made-up facts."""

import dataclasses
from typing import Any

import pytest

from made_up_facts import NOW, facts, process, stands_since
from prl.watch.assess import assess
from prl.watch.conditions import FAILS, HOLDS, UNKNOWN
from prl.watch.facts import EXITED, Clock, Facts, Launcher, Mark, Progress
from prl.watch.resumption import Resumption, resumption


def found(known: Facts) -> Resumption:
    return resumption(known, assess(known))


def states(known: Facts) -> dict[str, str]:
    return {condition.name: condition.state for condition in found(known).conditions}


def again(**changes: Any) -> Facts:
    """The second attempt of a run, at work."""
    known = facts(attempt=2, attempts=[1, 2], **changes)
    return dataclasses.replace(known, run=dataclasses.replace(known.run, resume_step=20))


def starting(**changes: Any) -> Facts:
    """The second attempt, whose processes live and which has not made a step. Counters tell of the attempt before."""
    before = Progress(trainer=Clock(20, None, "launcher/status.json"))
    word = Launcher("node-0", 99, "starting", "alive", NOW - 20, NOW - 1)
    known = again(attempt_started=NOW - 20, progress=before, launcher=word, pipeline=None, series=[], **changes)
    return dataclasses.replace(
        known, marks=[Mark("trainer_loop", "trainer", "logs/attempt_2/trainer.log", 1, NOW - 5, "")]
    )


def test_later_attempt_at_work() -> None:
    told = found(again())
    assert (told.result, told.exit_code, told.resume_step) == ("resumed", 0, 20)
    assert {condition.state for condition in told.conditions} == {HOLDS}
    assert "attempt 2, after attempt 1" in told.conditions[0].text
    assert "from the checkpoint of step 20" in told.conditions[0].text


def test_only_attempt_may_be_the_first_or_a_clean_one() -> None:
    told = found(facts())
    assert (told.result, told.conditions[0].state) == ("resumed", UNKNOWN)
    assert "--clean" in (told.conditions[0].action or "")


def test_processes_that_live_are_no_progress_yet() -> None:
    told = found(starting())
    assert (told.result, told.exit_code, states(starting())["counter advanced"]) == ("not yet", 1, FAILS)
    assert "no step, batch or episode in 20.0s" in told.conditions[2].text


@pytest.mark.parametrize(
    "clock", [{"trainer": Clock(21, NOW - 2)}, {"orchestrator": Clock(21, NOW - 2)}, {"episodes": Clock(500, NOW - 2)}]
)
def test_any_counter_that_advanced_since_the_start_is_progress(clock: dict[str, Clock]) -> None:
    known = starting()
    known = dataclasses.replace(known, progress=dataclasses.replace(known.progress, **clock))
    assert states(known)["counter advanced"] == HOLDS
    old = {name: dataclasses.replace(one, time=NOW - 21) for name, one in clock.items()}
    known = dataclasses.replace(known, progress=dataclasses.replace(known.progress, **old))
    assert states(known)["counter advanced"] == FAILS


def test_first_policy_version_is_no_progress() -> None:
    known = starting()
    known = dataclasses.replace(known, progress=dataclasses.replace(known.progress, policy=Clock(20, NOW - 2)))
    assert found(known).result == "not yet"


def test_attempt_that_lost_a_process_or_stands_still_did_not_resume() -> None:
    dead = [process("inference"), process("orchestrator"), process("trainer", state=EXITED, exit_code=1, ended=NOW - 2)]
    told = found(again(processes=dead))
    assert (told.result, told.exit_code, told.conditions[1].state) == ("not resumed", 2, FAILS)
    assert "trainer (pid" in told.conditions[1].text
    stuck = stands_since(5000, attempt=2, attempts=[1, 2], attempt_started=NOW - 9000)
    assert (found(stuck).result, states(stuck)["not down"]) == ("not resumed", FAILS)
    held = [process("inference"), process("orchestrator"), process("trainer", stopped=[7])]
    assert states(again(processes=held))["processes up"] == FAILS


def test_processes_that_cannot_be_asked_are_not_known() -> None:
    away = [process(name, host="gpu-1", state="unknown") for name in ("inference", "trainer")]
    told = found(again(processes=away))
    assert (told.result, told.exit_code, told.conditions[1].state) == ("unknown", 3, UNKNOWN)

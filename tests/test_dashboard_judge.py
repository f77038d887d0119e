"""Verdicts in the background: the right runs, often enough, cheaply, and no run in the way of another."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from made_up_facts import facts
from made_up_runs import aged, rl_files, write
from prl.dashboard import judge as judge_module
from prl.dashboard.judge import Judge
from prl.dashboard.judgement import Judgement, failed, judge_run
from prl.rundir.runs import RunInfo, read_run
from prl.watch.assess import assess
from prl.watch.thresholds import DEFAULT, Thresholds
from prl.watch.verdict import FINISHED, PHASE_UNKNOWN, RUNNING, UNKNOWN


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def runs(tmp_path: Path) -> list[RunInfo]:
    return [read_run(aged(write(tmp_path / name, rl_files()))) for name in ("a", "b", "c")]


class Made:
    """Judgements that are made up, and who was judged."""

    def __init__(self, phase: str = FINISHED, cpu: float = 0.0) -> None:
        self.phase, self.cpu = phase, cpu
        self.judged: list[str] = []

    def __call__(self, run: RunInfo, limits: Thresholds, before: Judgement | None) -> Judgement:
        self.judged.append(run.name)
        verdict = dataclasses.replace(assess(facts()), phase=self.phase, step=run.step)
        return Judgement(run=run, verdict=verdict, made=time.monotonic(), cpu_seconds=self.cpu)


@pytest.fixture
def started() -> Iterator[Callable[[Judge], Judge]]:
    made: list[Judge] = []

    def start(judge: Judge) -> Judge:
        judge.start()
        made.append(judge)
        return judge

    yield start
    for judge in made:
        judge.close()


def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_run_is_judged_as_prl_status_judges_it(runs: list[RunInfo]) -> None:
    from prl.watch.gather import gather

    judged = judge_run(runs[0], DEFAULT, None)
    expected = assess(gather(runs[0].path, judged.verdict.as_of), DEFAULT)
    assert (judged.verdict.phase, judged.verdict.health, judged.verdict.step) == (
        expected.phase,
        expected.health,
        expected.step,
    )


def test_without_a_start_the_question_judges(runs: list[RunInfo]) -> None:
    made = Made()
    judge = Judge(lambda: runs, made)
    assert judge.of(runs[0].id) is None
    first = judge.look_at(runs[0])
    assert first is not None and judge.of(runs[0].id) is first
    assert judge.look_at(runs[0]) is first and made.judged == ["a"]
    changed = dataclasses.replace(runs[0], changed=1.0)
    assert judge.look_at(changed) is not first


def test_all_runs_are_judged_the_newest_first_and_ended_ones_once(
    runs: list[RunInfo], started: Callable[[Judge], Judge]
) -> None:
    made = Made()
    newest = [dataclasses.replace(run, changed=float(age)) for age, run in enumerate(runs)]
    judge = started(Judge(lambda: newest, made))
    until(lambda: all(judge.of(run.id) for run in newest))
    assert made.judged == ["c", "b", "a"]
    assert not judge._due(newest)


def test_an_ended_run_is_judged_again_when_its_files_changed(runs: list[RunInfo]) -> None:
    judge = Judge(lambda: runs, Made())
    old = dataclasses.replace(made_at(runs[0], FINISHED, age=6.0))
    judge._keep(runs[0], old)
    assert judge._due(runs[:1]) == []
    changed = [dataclasses.replace(runs[0], changed=5e9)]
    assert judge._due(changed) == changed


def made_at(run: RunInfo, phase: str, age: float, cpu: float = 0.0) -> Judgement:
    verdict = dataclasses.replace(assess(facts()), phase=phase)
    return Judgement(run=run, verdict=verdict, made=time.monotonic() - age, cpu_seconds=cpu)


@pytest.mark.parametrize(
    ("phase", "age", "looked", "due"),
    [
        (RUNNING, 6.0, True, True),
        (RUNNING, 4.0, True, False),
        (RUNNING, 6.0, False, False),
        (RUNNING, 21.0, False, True),
        (PHASE_UNKNOWN, 21.0, False, False),
        (PHASE_UNKNOWN, 121.0, False, True),
        (PHASE_UNKNOWN, 6.0, True, True),
        (FINISHED, 1e6, True, False),
    ],
)
def test_how_often_a_run_is_judged(runs: list[RunInfo], phase: str, age: float, looked: bool, due: bool) -> None:
    run = runs[0]
    judge = Judge(lambda: runs, Made())
    judge._keep(run, made_at(run, phase, age, cpu=0.02))
    if looked:
        judge._looked[run.id] = time.monotonic()
    assert bool(judge._due([run])) == due


@pytest.mark.parametrize(("age", "due"), [(6.0, False), (11.0, True)])
def test_what_is_dear_is_done_seldom(runs: list[RunInfo], age: float, due: bool) -> None:
    """0.4 s at 4 % of a core: every ten seconds."""
    judge = Judge(lambda: runs, Made())
    judge._keep(runs[0], made_at(runs[0], RUNNING, age, cpu=0.4))
    judge._looked[runs[0].id] = time.monotonic()
    assert bool(judge._due(runs[:1])) == due


def test_a_run_that_is_looked_at_comes_first(runs: list[RunInfo]) -> None:
    judge = Judge(lambda: runs, Made())
    judge._keep(runs[0], made_at(runs[0], RUNNING, 30.0))
    judge._looked[runs[2].id] = time.monotonic()
    assert judge._due(runs)[0].name == "c"  # looked at and never judged
    assert judge._due(runs)[-1].name == "a"  # judged before, and nobody looks


def test_who_opens_a_run_waits_for_its_first_judgement(runs: list[RunInfo], started: Callable[[Judge], Judge]) -> None:
    go_on = threading.Event()
    made = Made()

    def slow(run: RunInfo, limits: Thresholds, before: Judgement | None) -> Judgement:
        if run.name != "c":
            go_on.wait(10)
        return made(run, limits, before)

    judge = started(Judge(lambda: runs, slow))
    threading.Timer(0.05, go_on.set).start()
    judged = judge.look_at(runs[2], wait=10)
    assert judged is not None and judged.run is runs[2]


def test_a_run_that_raises_is_unknown_and_hides_no_other(
    runs: list[RunInfo], started: Callable[[Judge], Judge]
) -> None:
    def broken(run: RunInfo, limits: Thresholds, before: Judgement | None) -> Judgement:
        if run.name == "b":
            raise ZeroDivisionError("half a number")
        return Made()(run, limits, before)

    judge = started(Judge(lambda: runs, broken))
    until(lambda: all(judge.of(run.id) for run in runs))
    found = judge.of(runs[1].id)
    assert found is not None and found.verdict.health == UNKNOWN
    assert found.verdict.findings[0].rule == "rule.failed"
    assert "half a number" in found.verdict.findings[0].message
    others = [judge.of(run.id) for run in (runs[0], runs[2])]
    assert all(one is not None and one.verdict.phase == FINISHED for one in others)


def test_a_run_whose_judging_hangs_is_left_alone(runs: list[RunInfo], started: Callable[[Judge], Judge]) -> None:
    go_on = threading.Event()
    asked: list[str] = []

    def hanging(run: RunInfo, limits: Thresholds, before: Judgement | None) -> Judgement:
        asked.append(run.name)
        if run.name == "b":
            go_on.wait(20)
        return Made()(run, limits, before)

    judge = started(Judge(lambda: runs, hanging, hangs=0.05))
    until(lambda: all(judge.of(run.id) for run in runs))
    found = judge.of(runs[1].id)
    assert found is not None and found.verdict.health == UNKNOWN and "not come back" in (found.verdict.reason or "")
    judge.look_at(runs[1])
    assert judge._due(runs) == [] and asked.count("b") == 1
    go_on.set()
    until(lambda: (judge.of(runs[1].id) or found).verdict.phase == FINISHED)
    assert not judge._slow


def test_what_takes_long_keeps_nobody_waiting(
    runs: list[RunInfo], started: Callable[[Judge], Judge], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "PATIENCE", 0.05)
    go_on = threading.Event()

    def slow(run: RunInfo, limits: Thresholds, before: Judgement | None) -> Judgement:
        if run.name == "b":
            go_on.wait(20)
        return Made()(run, limits, before)

    judge = started(Judge(lambda: runs, slow))
    until(lambda: all(judge.of(run.id) for run in (runs[0], runs[2])))
    assert judge.of(runs[1].id) is None
    go_on.set()
    until(lambda: judge.of(runs[1].id) is not None)


def test_the_version_changes_with_what_is_said_and_not_with_time(runs: list[RunInfo]) -> None:
    judge = Judge(lambda: runs, Made())
    run = runs[0]
    judge._keep(run, made_at(run, RUNNING, 20.0))
    version = judge.version
    judge._keep(run, made_at(run, RUNNING, 10.0))
    assert judge.version == version
    judge._keep(run, made_at(run, FINISHED, 5.0))
    assert judge.version == version + 1
    judge._keep(run, dataclasses.replace(made_at(run, FINISHED, 5.0), job={"id": "7", "state": "FAILED"}))
    assert judge.version == version + 2
    judge._keep(run, failed(run, "gone"))
    assert judge.version == version + 3


def test_the_age_of_a_judgement_is_seen_at_times(runs: list[RunInfo]) -> None:
    judge = Judge(lambda: runs, Made())
    judge._keep(runs[0], made_at(runs[0], RUNNING, 70.0))
    version = judge.version
    judge._keep(runs[0], made_at(runs[0], RUNNING, 0.0))
    assert judge.version == version + 1


def test_judgements_of_runs_that_are_gone_are_forgotten(runs: list[RunInfo]) -> None:
    judge = Judge(lambda: runs, Made())
    for run in runs:
        judge._keep(run, made_at(run, FINISHED, 1.0))
    judge._forget(runs[:1])
    assert judge.of(runs[0].id) is not None and judge.of(runs[1].id) is None


def test_thresholds_that_cannot_be_used_are_told_and_the_usual_ones_used(
    runs: list[RunInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[episodes]\nerors = 1\n")
    monkeypatch.setenv("PRL_RULES", str(rules))
    judge = Judge(lambda: runs, Made())
    assert judge.limits() == DEFAULT and "erors" in (judge.problem or "")
    rules.write_text("[episodes]\nerrors_once = 0.5\n")
    assert judge.limits().episodes.errors_once == 0.5 and judge.problem is None


def test_slurm_is_asked_once_for_all_jobs(runs: list[RunInfo], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr("prl.watch.jobs.ask_together", lambda ids, now: asked.append(list(ids)))
    with_jobs = [dataclasses.replace(run, job_id=str(number)) for number, run in enumerate(runs, 8000)]
    judge = Judge(lambda: with_jobs, Made())
    for _ in range(3):
        judge._turn()
    assert asked == [["8000", "8001", "8002"]]


def test_nobody_who_looks_means_no_work(runs: list[RunInfo], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_module, "IDLE_SECONDS", -1.0)
    made = Made()
    judge = Judge(lambda: runs, made)
    assert judge._turn() > 5 and made.judged == []

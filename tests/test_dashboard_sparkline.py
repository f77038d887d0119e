"""The reward of a run as a few points."""

from pathlib import Path

import pytest

from made_up_facts import steps
from prl.dashboard.sparkline import POINTS, Course, course, sparkline
from prl.rundir.metrics.store import MetricsStore
from prl.watch.facts import Series

REWARD = "train/agg/effective/agent/reward/mean"


def series(first: int, count: int, key: str = REWARD) -> Series:
    whole = steps("orch", key, [float(step) for step in range(first, first + count)])
    return Series("orch", key, list(range(first, first + count)), whole.times, whole.values)


def test_nothing_has_no_sparkline(tmp_path: Path) -> None:
    assert course(tmp_path, []) == () and sparkline(()) is None


def test_few_points_are_drawn_as_they_are(tmp_path: Path) -> None:
    drawn = sparkline(course(tmp_path, [series(1, 5)]))
    assert drawn is not None and drawn.points == (1, 2, 3, 4, 5) and drawn.last == 5 and drawn.step == 5
    assert drawn.change is None


def test_many_points_are_means_of_equal_parts_and_the_change_is_that_of_tenths(tmp_path: Path) -> None:
    drawn = sparkline(course(tmp_path, [series(1, 120)]))
    assert drawn is not None and len(drawn.points) == POINTS
    assert drawn.points[0] == 2.0 and drawn.points[-1] == 119.0  # means of 1, 2, 3 and of 118, 119, 120
    assert drawn.change == pytest.approx(114.5 - 6.5)


def test_the_course_goes_on_from_look_to_look_and_a_resume_repeats_steps(tmp_path: Path) -> None:
    first = course(tmp_path, [series(1, 120)])
    later = course(tmp_path, [series(61, 120)], first)
    assert [step for step, _ in later] == list(range(1, 181))
    again = course(tmp_path, [series(100, 10)], later)
    assert again[-1] == (109, 109.0) and len(again) == 109


def test_a_long_course_stays_small(tmp_path: Path) -> None:
    known: Course = ()
    for first in range(1, 6000, 100):
        known = course(tmp_path, [series(first, 100)], known)
    assert len(known) <= 2000 and known[-1][0] >= 6000 and known[0][0] == 1


def test_what_is_not_a_number_is_left_out(tmp_path: Path) -> None:
    gaps = steps("orch", REWARD, [0.1, None, 0.3])
    assert [value for _, value in course(tmp_path, [gaps])] == [0.1, 0.3]


def test_an_evaluation_shows_its_score_and_sft_its_loss(tmp_path: Path) -> None:
    assert course(tmp_path, [series(1, 3, "eval/math/effective/agent/avg@4")])
    loss = Series("trainer", "loss/mean", [1, 2], [0.0, 1.0], [3.0, 2.0])
    assert course(tmp_path, [loss]) == ((1, 3.0), (2, 2.0))


def test_the_whole_course_of_a_run_that_was_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("prl.rundir.metrics.store._SAVE_BYTES", 1)
    file = tmp_path / "run" / "monitors" / "file" / "metrics.jsonl"
    file.parent.mkdir(parents=True)
    rows = [f'{{"step":{n},"time":{n}.0,"{REWARD}":{n}.0,"producer":"orch"}}' for n in range(1, 401)]
    file.write_text("\n".join(rows) + "\n")
    recent = series(281, 120)
    assert course(tmp_path / "run", [recent])[0][0] == 281
    store = MetricsStore(file)
    store.refresh()
    assert [step for step, _ in course(tmp_path / "run", [recent])] == list(range(1, 401))
    file.write_text("{}\n")  # another file in its place: what was kept is not of it
    assert course(tmp_path / "run", [recent])[0][0] == 281

"""Thresholds that a user sets."""

from pathlib import Path

import pytest

from made_up_facts import facts, said, steps
from prl.watch.thresholds import DEFAULT, ThresholdsError, load_thresholds


def write(path: Path, text: str) -> dict[str, str]:
    path.write_text(text)
    return {"PRL_RULES": str(path)}


def test_single_ones_are_changed_and_the_others_kept(tmp_path: Path) -> None:
    given = load_thresholds(write(tmp_path / "r.toml", "[episodes]\nerrors_once = 0.5\n[engines]\npolls = 3\n"))
    assert (given.episodes.errors_once, given.episodes.errors_twice) == (0.5, DEFAULT.episodes.errors_twice)
    assert given.engines.polls == 3
    assert given.progress == DEFAULT.progress


def test_they_decide(tmp_path: Path) -> None:
    known = facts(steps("orch", "train/gsm/all/has_error/mean", [0.0] * 5 + [0.3]))
    given = load_thresholds(write(tmp_path / "r.toml", "[episodes]\nerrors_once = 0.5\n"))
    assert said(known, "episodes.error-rate") is not None
    assert said(known, "episodes.error-rate", given) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("episodes = 1", "episodes: expected a table"),
        ("[episode]\nx = 1", "episode: no such table; expected one of progress"),
        ("[episodes]\nerrors = 1", "episodes.errors: no such threshold; expected one of errors_twice"),
        ("[episodes]\nerrors_once = 'much'", "episodes.errors_once: expected a number, not negative, found 'much'"),
        ("[episodes]\nerrors_once = true", "expected a number"),
        ("[episodes]\nerrors_once = -1", "not negative"),
        ("[episodes]\nerrors_once = nan", "expected a number"),
        ("[engines]\npolls = 1.5", "engines.polls: expected a whole number"),
        ("[engines", "not TOML"),
    ],
)
def test_what_cannot_be_used_is_told_with_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ThresholdsError) as error:
        load_thresholds(write(tmp_path / "r.toml", text))
    assert words in str(error.value)
    assert str(tmp_path / "r.toml") in str(error.value)


def test_a_file_that_is_named_must_exist_and_the_usual_one_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ThresholdsError, match="does not exist"):
        load_thresholds({"PRL_RULES": str(tmp_path / "none.toml")})
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_thresholds({}) is DEFAULT
    (tmp_path / ".config" / "prl").mkdir(parents=True)
    (tmp_path / ".config" / "prl" / "rules.toml").write_text("[loops]\nlag_p99 = 2\n")
    assert load_thresholds({}).loops.lag_p99 == 2.0

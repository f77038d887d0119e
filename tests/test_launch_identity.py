"""What a run is called."""

import re

import pytest

from prl.config import RunConfig
from prl.launch.exits import RefusedError
from prl.launch.identity import RunName, named, new_run_name, run_id


def test_a_made_up_name_tells_environments_and_model() -> None:
    name = new_run_name(["gsm", "word-sort", "gsm"], "Made-Up/Tiny-0.6B/")
    assert re.fullmatch(r"gsm\+word-sort--tiny-0\.6b--[0-9a-f]{8}", name)
    assert new_run_name([], "x").startswith("no-env--x--")
    assert new_run_name(["a"], "x") != new_run_name(["a"], "x")


def test_the_directory_follows_the_name_unless_it_is_given() -> None:
    def of(run: RunConfig) -> RunName:
        return named(run, sources=["a"], model="m", resuming=False)

    assert of(RunConfig(name="x")) == RunName("x", "x")
    assert of(RunConfig(name="x", dir="group/y")) == RunName("x", "group/y")
    assert of(RunConfig(dir="y")) == RunName("y", "y")
    made_up = of(RunConfig())
    assert made_up.name == made_up.dir


def test_a_name_that_is_made_up_could_have_been_given() -> None:
    made_up = named(RunConfig(), sources=["a" * 150, "b"], model="/models/\nMy " + "é" * 60, resuming=False).name
    assert RunConfig(name=made_up).name == made_up
    assert re.fullmatch(r"a{150}\+b--_my é+--[0-9a-f]{8}", made_up)


def test_an_unnamed_run_cannot_go_on() -> None:
    with pytest.raises(RefusedError, match=r"--run\.name"):
        named(RunConfig(), sources=[], model="m", resuming=True)


def test_the_id_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_RUN_ID", "made-up")
    assert run_id() == "made-up"
    monkeypatch.delenv("PRL_RUN_ID")
    assert re.fullmatch("[0-9a-f]{32}", run_id())

"""What a run evaluates: plans, archives of earlier attempts, and links that a page may show."""

from pathlib import Path
from typing import Any

import pytest

from made_up_runs import write
from prl.rundir.evaluations import PlatformLink, read_evaluations, web_address


def test_plan_and_what_it_expects(tmp_path: Path) -> None:
    found = read_evaluations(write(tmp_path, {"monitors/file/plan.json": {"gsm": {"0": 64, "20": 64}, "words": {}}}))
    assert found.current.plan == {"gsm": {0: 64, 20: 64}, "words": {}}
    assert (found.current.expected, found.current.plan_source) == (128, "monitors/file/plan.json")
    assert (found.current.attempt, found.archives, found.platform, found.trouble) == (None, (), (), ())


def test_older_name_and_no_plan(tmp_path: Path) -> None:
    older = read_evaluations(write(tmp_path / "a", {"monitors/file/eval_plan.json": {"gsm": {"0": 8}}}))
    assert older.current.expected == 8
    none = read_evaluations(write(tmp_path / "b", {"monitors/file/eval.json": {"model": {"name": "m"}}}))
    assert (none.current.expected, none.current.config) == (None, {"model": {"name": "m"}})


def test_earlier_attempts_stay_reachable(tmp_path: Path) -> None:
    found = read_evaluations(
        write(
            tmp_path,
            {
                "monitors/file/plan.json": {"gsm": {"0": 4}},
                "monitors/file.attempt_10/plan.json": {"gsm": {"0": 10}},
                "monitors/file.attempt_2/eval.json": {},
                "monitors/file.attempt_x/plan.json": {},
                "monitors/other/plan.json": {},
            },
        )
    )
    assert [(r.attempt, r.expected) for r in found.archives] == [(2, None), (10, 10)]
    assert found.archives[1].path == tmp_path / "monitors/file.attempt_10"


@pytest.mark.parametrize(
    ("chunks", "sealed"),
    [((), False), (("00000.jsonl",), False), (("00000.jsonl.zst", "00001.jsonl"), False), (("00000.jsonl.zst",), True)],
)
def test_recording_whose_chunks_are_all_sealed_has_ended(tmp_path: Path, chunks: tuple[str, ...], sealed: bool) -> None:
    files = {f"monitors/file/traces/stream/{name}": "" for name in chunks}
    assert read_evaluations(write(tmp_path, files)).current.sealed is sealed


@pytest.mark.parametrize("steps", [None, 5, "x", [], {"0": "8", "1": None, "2": -1, "x": 4, "-1": 2, "3": True}])
def test_what_is_no_plan_is_left_out(tmp_path: Path, steps: Any) -> None:
    found = read_evaluations(write(tmp_path, {"monitors/file/plan.json": {"gsm": steps, "words": {"0": 3}}}))
    assert found.current.expected == 3


def test_broken_plan_is_trouble_and_no_plan(tmp_path: Path) -> None:
    found = read_evaluations(write(tmp_path, {"monitors/file/plan.json": "[1]"}))
    assert (found.current.expected, found.current.plan_source) == (None, None)
    assert found.trouble == ("monitors/file/plan.json: a JSON list, not an object",)


def test_links_of_a_training_and_of_evaluations(tmp_path: Path) -> None:
    train = {"kind": "train", "id": "r1", "url": "https://app.example/r1"}
    assert read_evaluations(write(tmp_path / "t", {"monitors/prime/run.json": train})).platform == (
        PlatformLink("", "r1", "https://app.example/r1", None),
    )
    pages = {"gsm": {"step": 0, "id": "e1", "url": "https://app.example/e1"}, "bad": 5, "x": {"url": "javascript:1"}}
    document = {"kind": "eval", "run_id": "r2", "evaluations": pages}
    assert read_evaluations(write(tmp_path / "e", {"monitors/prime/run.json": document})).platform == (
        PlatformLink("", "r2", None, None),
        PlatformLink("gsm", "e1", "https://app.example/e1", 0),
    )


@pytest.mark.parametrize(
    "value",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//host/path",
        "https://",
        "http://a b",
        "https://host/\x1b]0;x",
        "https://[bad",
        "ftp://host",
        "",
        None,
        7,
        "java\nscript:x",
    ],
)
def test_only_addresses_of_the_web_are_links(value: object) -> None:
    assert web_address(value) is None
    assert web_address("HTTPS://Host/x?y=1#z") == "HTTPS://Host/x?y=1#z"

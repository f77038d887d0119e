"""Facts go to JSON and back, and what is not facts is refused with the place that is wrong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.watch import Facts, FactsError, gather
from prl.watch.assess import assess
from prl.watch.facts import loads
from sample_runs import running

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    run, now = running(tmp_path_factory.mktemp("runs"))
    run.log("trainer", (now, "ERROR", "Fatal error in train"), "Traceback (most recent call last):", "ValueError: x")
    return gather(run.root, now)


def test_round_trip_gives_the_same_facts_and_the_same_verdict(facts: Facts) -> None:
    again = loads(json.dumps(facts.to_json(), allow_nan=False))
    assert again == facts
    assert assess(again) == assess(facts)
    assert (len(facts.errors), len(facts.processes)) == (1, 4)


def test_fields_of_a_later_version_are_ignored(facts: Facts) -> None:
    assert Facts.from_json({**facts.to_json(), "moon": "full"}) == facts


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema_version": 99}, "schema version 1"),
        ({"as_of": "now"}, "facts.as_of: float was expected"),
        ({"processes": {}}, "facts.processes: a list was expected"),
        ({"processes": [{"name": 3}]}, r"facts.processes\[0\].name: str was expected"),
        ({"run": {}}, "facts.run: "),
        ({"disk": []}, "facts.disk: an object was expected"),
        ({"configured": 1}, "facts.configured: bool was expected"),
        ({"attempt": True}, "facts.attempt: int was expected"),
    ],
)
def test_wrong_facts_are_refused_by_place(facts: Facts, change: dict[str, object], told: str) -> None:
    with pytest.raises(FactsError, match=told):
        Facts.from_json({**facts.to_json(), **change})


def test_what_is_no_json_is_refused() -> None:
    for text in ("", "{", "[]", "3", "[" * 100_000):
        with pytest.raises(FactsError):
            loads(text)


@given(st.data())
def test_any_change_is_read_or_refused(facts: Facts, data: st.DataObject) -> None:
    raw = facts.to_json()
    raw[data.draw(st.sampled_from(sorted(raw)))] = data.draw(JSON)
    try:
        changed = Facts.from_json(raw)
    except FactsError:
        return
    assess(changed)

"""The last step before text leaves: keys and texts become harmless and stay what they were told apart by."""

from prl.watch.outward import safe_keys, safe_tree


def test_keys_stay_distinct() -> None:
    assert safe_keys(["a", "a\x1b[31m", "a\u200f", "b", "a (2)"]) == ["a", "a (2)", "a (3)", "b", "a (2) (2)"]
    long = "k" * 500
    assert len(set(safe_keys([f"{long}1", f"{long}2", f"{long}3"]))) == 3


def test_no_value_of_a_tree_is_lost() -> None:
    assert safe_tree({"x\x07": 1, "x": {"y\u202e": 2, "y": 3}}) == {"x": 1, "x (2)": {"y": 2, "y (2)": 3}}

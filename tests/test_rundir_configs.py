"""What each attempt was configured with, in any layout, and what differs between two."""

import copy
import functools
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from made_up_runs import rl_files, write
from prl.rundir.configs import ABSENT, AttemptConfigs, Change, attempts_of, diff, read_configs
from prl.rundir.tree import RunTree


def configs(**documents: Any) -> AttemptConfigs:
    return AttemptConfigs(1, None, (), documents, {}, None)


def test_everything_of_an_attempt(tmp_path: Path) -> None:
    envs = "configs/attempt_1/resolved/envs/train"
    write(tmp_path, {**rl_files(), f"{envs}/gsm.json": {"env": {}}, f"{envs}/gsm.address": "tcp://127.0.0.1:4001\n"})
    found = read_configs(tmp_path)
    assert (found.attempt, found.command, found.trouble) == (1, "rl @ rl.toml", ())
    assert found.files == ("configs/attempt_1/rl.toml",)
    assert sorted(found.documents) == ["envs/train/gsm", "orchestrator", "trainer"]
    assert found.addresses == {"envs/train/gsm": "tcp://127.0.0.1:4001"}
    assert found.environment is not None
    assert found.environment["environment"]["SLURM_JOB_ID"] == "8123"


def test_attempts_by_number_and_the_newest_that_left_something(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "configs/attempt_2/resolved/sft.json": {"max_steps": 2},
            "configs/attempt_10/resolved/sft.json": {"max_steps": 10},
            "logs/attempt_11/trainer.log": "x",
            "configs/attempt_99999999999999999999/resolved/sft.json": {},
            "configs/attempt_-1/resolved/sft.json": {},
            "configs/attempt_7.tmp/x": "",
            "configs/attempt_8": "a file",
        },
    )
    (tmp_path / "configs/attempt_12").symlink_to("attempt_2")
    assert attempts_of(RunTree(tmp_path)) == [2, 10, 11]
    assert read_configs(tmp_path).documents["sft"] == {"max_steps": 10}
    assert read_configs(tmp_path, 2).documents["sft"] == {"max_steps": 2}
    assert read_configs(tmp_path, 5) == AttemptConfigs(5, None, (), {}, {}, None)


def test_layouts_without_attempts(tmp_path: Path) -> None:
    middle = read_configs(write(tmp_path / "b", {"configs/resolved/trainer.json": {"b": 1}, "configs/rl.toml": ""}))
    assert (middle.attempt, middle.documents, middle.files) == (None, {"trainer": {"b": 1}}, ("configs/rl.toml",))
    oldest = read_configs(write(tmp_path / "a", {"configs/trainer.json": {"a": 1}}))
    assert (oldest.documents, oldest.files) == ({"trainer": {"a": 1}}, ())


def test_broken_document_costs_no_other(tmp_path: Path) -> None:
    resolved = "configs/attempt_1/resolved"
    found = read_configs(write(tmp_path, {f"{resolved}/trainer.json": "{", f"{resolved}/orchestrator.json": {"a": 1}}))
    assert found.documents == {"orchestrator": {"a": 1}}
    assert found.trouble[0].startswith(f"{resolved}/trainer.json: not JSON")


def test_nothing_at_all(tmp_path: Path) -> None:
    assert read_configs(tmp_path / "absent") == AttemptConfigs(None, None, (), {}, {}, None)


def test_difference_names_values_by_opaque_keys() -> None:
    before = configs(trainer={"optim": {"lr": 1e-6}, "a.b": {"/": 1}, "betas": [0.9, 0.99], "gone": None})
    after = configs(trainer={"optim": {"lr": 2e-6}, "a.b": {"/": 2}, "betas": [0.9, 0.95, 1]}, sft={"seed": 1})
    assert diff(before, after) == [
        Change(("sft",), ABSENT, {"seed": 1}, "added"),
        Change(("trainer", "a.b", "/"), 1, 2, "changed"),
        Change(("trainer", "betas", 1), 0.99, 0.95, "changed"),
        Change(("trainer", "betas", 2), ABSENT, 1, "added"),
        Change(("trainer", "gone"), None, ABSENT, "removed"),
        Change(("trainer", "optim", "lr"), 1e-6, 2e-6, "changed"),
    ]


def test_same_values_in_another_spelling_are_no_difference() -> None:
    nan = float("nan")
    before, after = configs(a={"x": 1, "y": nan, "z": True, "k": {}}), configs(a={"x": 1.0, "y": nan, "z": 1, "k": []})
    assert [(change.keys, change.before, change.after) for change in diff(before, after)] == [
        (("a", "k"), {}, []),
        (("a", "z"), True, 1),
    ]


def test_secrets_are_masked_where_a_difference_leaves_and_nowhere_else() -> None:
    before = configs(o={"api_key": "one-secret", "env_vars": {"HF_TOKEN": "hf_" + "a" * 20}})
    after = configs(o={"api_key": "two-secret", "name": "x" * 1000})
    changes = diff(before, after)
    assert changes[0].before == "one-secret"
    told = json.dumps([change.to_json() for change in changes])
    assert "secret" not in told
    assert "hf_aaaa" not in told
    assert changes[0].to_json() == {"keys": ["o", "api_key"], "kind": "changed", "before": "***", "after": "***"}
    assert "after" not in changes[1].to_json()
    assert len(changes[2].to_json()["after"]) == 400


def test_difference_of_what_is_nested_without_end() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    (change,) = diff(configs(a={"x": deep}), configs(a={"x": 2}))
    assert "…" in json.dumps(change.to_json(), ensure_ascii=False)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.text(max_size=2), st.dictionaries(st.text(max_size=2), plain, max_size=3), max_size=3)


@given(before=documents, after=documents)
def test_difference_applied_gives_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    changes = diff(configs(**before), configs(**after))
    back = diff(configs(**after), configs(**before))
    kinds = {"added": "removed", "removed": "added", "changed": "changed"}
    assert back == [Change(c.keys, c.after, c.before, kinds[c.kind]) for c in changes]
    patched = copy.deepcopy(before)
    for change in (change for change in changes if change.kind == "changed"):
        holder(patched, change)[change.keys[-1]] = change.after
    for change in reversed([change for change in changes if change.kind == "removed"]):  # of a list, the last first
        del holder(patched, change)[change.keys[-1]]
    for change in (change for change in changes if change.kind == "added"):
        target = holder(patched, change)
        if isinstance(target, list):
            target.append(change.after)
        else:
            target[change.keys[-1]] = change.after
    assert diff(configs(**patched), configs(**after)) == []


def holder(document: Any, change: Change) -> Any:
    """What directly holds the value of a change."""
    return functools.reduce(lambda value, key: value[key], change.keys[:-1], document)

"""``prl rules``: what the rules say of themselves."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from prl.cli.rules import rules as command
from prl.watch.assess import DOCUMENTED
from prl.watch.rules import RULES, Rule, document
from prl.watch.thresholds import DEFAULT


def call(*args: str) -> tuple[int, Result]:
    result = CliRunner().invoke(command, list(args), standalone_mode=False)
    return (result.return_value if result.exception is None else 64), result


def test_every_rule_has_a_line() -> None:
    code, result = call()
    assert code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == [rule.id for rule in DOCUMENTED]


@pytest.mark.parametrize("found", DOCUMENTED, ids=lambda rule: rule.id)
def test_a_rule_by_its_id(found: Rule) -> None:
    """Every id that a finding may have, that of a rule that raised among them."""
    _, result = call(found.id)
    said = " ".join(result.stdout.split())
    for part in (found.id, document(found).summary, document(found).speaks):
        assert " ".join(part.split()) in said


def test_an_area_and_what_is_no_rule() -> None:
    _, result = call("disk", "--json")
    answer = json.loads(result.stdout)
    assert {row["rule"] for row in answer["rows"]} == {rule.id for rule in RULES if rule.id.startswith("disk")}
    assert set(answer["rows"][0]) == {"rule", "summary", "needs", "speaks", "silent", "phases"}
    assert call("no.such-rule")[0] == 64


def test_thresholds_are_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rules.toml"
    path.write_text("[host]\ndisk_hours = 77\n")
    monkeypatch.setenv("PRL_RULES", str(path))
    assert DEFAULT.host.disk_hours != 77
    assert "77 hours" in " ".join(call("disk.filling")[1].stdout.split())
    path.write_text("[host]\ndisk_ours = 77\n")
    code, result = call("disk.filling")
    assert code == 64
    assert "disk_ours" in str(result.exception)

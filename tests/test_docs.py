"""Documentation and code name the same things: rules, commands and their options."""

import re
from pathlib import Path

import click
import pytest

from prl.cli.main import prl
from prl.watch.assess import RULE_FAILED
from prl.watch.rules import RULES

DOCS = Path(__file__).parent.parent / "docs"


def sections(path: Path) -> dict[str, str]:
    """Text below each ``## `name` `` heading."""
    parts = re.split(r"^## `([^`]+)`.*$", path.read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands() -> dict[str, click.Command]:
    context = click.Context(prl)
    names = prl.list_commands(context)
    return {name: command for name in names if (command := prl.get_command(context, name)) is not None}


def test_every_rule_is_documented_and_no_other() -> None:
    assert sorted(sections(DOCS / "rules.md")) == sorted([*(rule.id for rule in RULES), RULE_FAILED])


@pytest.mark.parametrize("rule", [*(rule.id for rule in RULES), RULE_FAILED])
def test_rule_says_what_it_needs_and_when_it_speaks(rule: str) -> None:
    text = sections(DOCS / "rules.md")[rule]
    for part in ("Needs", "Speaks", "Silent"):
        assert f"**{part}**" in text


def test_every_command_is_documented_and_no_other() -> None:
    assert sorted(sections(DOCS / "commands.md")) == sorted(f"prl {name}" for name in commands())


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_is_documented_and_no_other(name: str) -> None:
    text = sections(DOCS / "commands.md")[f"prl {name}"]
    command = commands()[name]
    known = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert set(re.findall(r"^- `(--[a-z-]+)", text, flags=re.M)) == known

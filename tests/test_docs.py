"""Documentation and code name the same things: rules, commands and their options."""

import importlib
import re
import tomllib
from pathlib import Path

import click
import pytest

from prl.cli.dashboard import dashboard
from prl.cli.main import prl
from prl.watch.assess import RULE_FAILED
from prl.watch.rules import RULES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def sections(path: Path) -> dict[str, str]:
    """Text below each ``## `name` `` heading."""
    parts = re.split(r"^## `([^`]+)`.*$", path.read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands() -> dict[str, click.Command]:
    context = click.Context(prl)
    names = prl.list_commands(context)
    found = {f"prl {name}": command for name in names if (command := prl.get_command(context, name)) is not None}
    return {**found, "dashboard": dashboard}


def test_every_rule_is_documented_and_no_other() -> None:
    assert sorted(sections(DOCS / "rules.md")) == sorted([*(rule.id for rule in RULES), RULE_FAILED])


@pytest.mark.parametrize("rule", [*(rule.id for rule in RULES), RULE_FAILED])
def test_rule_says_what_it_needs_and_when_it_speaks(rule: str) -> None:
    text = sections(DOCS / "rules.md")[rule]
    for part in ("Needs", "Speaks", "Silent"):
        assert f"**{part}**" in text


def test_every_command_is_documented_and_no_other() -> None:
    assert sorted(sections(DOCS / "commands.md")) == sorted(commands())


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_is_documented_and_no_other(name: str) -> None:
    text = sections(DOCS / "commands.md")[name]
    shown = [one for one in commands()[name].params if not (isinstance(one, click.Option) and one.hidden)]
    known = {option for parameter in shown for option in parameter.opts if option.startswith("--")}
    assert set(re.findall(r"^- `(--[a-z-]+)", text, flags=re.M)) == known


def test_every_script_is_documented_and_no_other() -> None:
    scripts = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]) - {"prl", "dashboard"}
    table = re.findall(r"^\| `([a-z-]+) @", (DOCS / "commands.md").read_text(), flags=re.M)
    assert set(table) == scripts


@pytest.mark.parametrize(("page", "tool"), [("configuration", "config_reference"), ("rules", "rules_reference")])
def test_pages_that_are_made_from_code_are_up_to_date(page: str, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs` writes the page; it was forgotten when this fails."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    assert (DOCS / f"{page}.md").read_text() == importlib.import_module(tool).page()


def test_every_route_is_documented_and_no_other() -> None:
    from unittest.mock import Mock

    from prl.inference.data_plane import DataPlane
    from prl.inference.engine_plane import EnginePlane

    data, engine = DataPlane(Mock(), Mock()).routes(), EnginePlane(Mock(), Mock(), "model", ()).routes()
    served = {(f"{r.method} {r.path}", "both") for r in data} | {(f"{r.method} {r.path}", "engine") for r in engine}
    text = (DOCS / "inference.md").read_text()
    assert set(re.findall(r"^\| `((?:GET|POST) [^`]+)` \| (both|engine) ", text, flags=re.M)) == served

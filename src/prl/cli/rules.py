"""``prl rules``: every rule, in its own words, with this user's thresholds."""

import textwrap
from dataclasses import asdict
from typing import Any

import click

from prl.cli.answers import MAX_ROWS, envelope, print_json, print_text, user_thresholds
from prl.watch.assess import DOCUMENTED
from prl.watch.outward import safe
from prl.watch.rules import Documentation, Rule, document

_WIDTH = 100


@click.command()
@click.argument("rule_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
def rules(rule_id: str | None, as_json: bool) -> int:
    """What the rules look for: what each needs, when it speaks, when it is silent, with your thresholds.

    ID is a rule, as a finding names it, or the beginning of several, such as an area. Exit status: 0, 64 for no rule.
    """
    limits = user_thresholds()
    chosen = [rule for rule in DOCUMENTED if rule_id is None or rule.id == rule_id]
    chosen = chosen or [rule for rule in DOCUMENTED if rule_id and rule.id.startswith(rule_id)]
    if not chosen:
        areas = ", ".join(dict.fromkeys(rule.id.partition(".")[0] for rule in DOCUMENTED))
        raise click.UsageError(safe(f"no rule {rule_id!r}; `prl rules` lists them, in the areas {areas}"))
    told = [(rule, document(rule, limits)) for rule in chosen]
    if as_json:
        print_json(_answer(told))
    elif rule_id is None:
        print_text(_list(told))
    else:
        print_text("\n".join(_whole(rule, words) for rule, words in told))
    return 0


def _answer(told: list[tuple[Rule, Documentation]]) -> dict[str, Any]:
    rows = [
        {"rule": rule.id, **asdict(words), "phases": list(rule.phases) if rule.phases is not None else None}
        for rule, words in told
    ]
    return envelope(counts={"rules": len(rows)}, rows=rows[:MAX_ROWS], truncated=len(rows) > MAX_ROWS)


def _list(told: list[tuple[Rule, Documentation]]) -> str:
    width = max(len(rule.id) for rule, _ in told)
    return "".join(f"{rule.id:<{width}}  {words.summary}\n" for rule, words in told)


def _whole(rule: Rule, words: Documentation) -> str:
    phases = "any phase" if rule.phases is None else ", ".join(rule.phases)
    parts = (("", words.summary), ("needs", words.needs), ("speaks", words.speaks), ("silent", words.silent))
    body = [
        textwrap.fill(f"{name + ':':<9}{text}" if name else text, _WIDTH, subsequent_indent=" " * 9 if name else "")
        for name, text in (*parts, ("asked", f"in {phases}"))
    ]
    return f"{rule.id}\n" + "\n".join(body) + "\n"

"""Write ``docs/rules.md`` from the rules: each with what it needs, when it speaks and when it is silent.

    python tools/rules_reference.py          (make docs)

A test compares the page with what this prints. The texts are the docstrings of the rules, with the default thresholds.
"""

import ast
import dataclasses
import inspect
import textwrap
from itertools import pairwise
from pathlib import Path

from prl.watch import thresholds
from prl.watch.assess import DOCUMENTED
from prl.watch.rules import Rule, document

PAGE = Path(__file__).parent.parent / "docs" / "rules.md"
WIDTH = 120
HEAD = """\
# Rules

A verdict is a phase, a health and findings. Every finding comes from one of the rules below. A rule is a function of
the facts alone, so it says the same of recorded facts (`prl status --facts FILE`) as of a live run. A **critical**
finding makes a run Down, a **warning** makes it Degraded, **info** changes nothing. A finding is an alarm or advice:
advice on what to tune is held back while an alarm is active. A finding that explains others (a process that is held
explains why nothing advances) is as grave as they are and told before them. A finished run is Healthy unless one of its
rules has something to say, a failed or stopped one is Down whatever the rules say, a preempted or requeued one
Degraded, a queued one Healthy. Where the facts do not reach, health is Unknown, unless a critical finding holds
whichever way, and the answer says what is not known. Rules are asked only in the phases in which what they look at is
abnormal. What opened at some of the last steps closes after some that were quiet: that is replayed from the recorded
series, never remembered. Baselines come from this attempt alone.

`make docs` writes this page from the rules. Thresholds in it are the defaults; the last section says how to set
others.
"""
THRESHOLDS = """\
# Thresholds

A TOML file named by `$PRL_RULES`, or `~/.config/prl/rules.toml`, sets any of these; the others keep their defaults. A
key that does not exist, or a value of another kind, is an error that names the file, the key and what was expected.
Times are seconds, shares 0 to 1.

```toml
[episodes]
errors_twice = 0.10
```
"""


def page() -> str:
    """The whole page."""
    rules = "\n".join(_section(rule) for rule in DOCUMENTED)
    return f"{HEAD}\n{rules}\n{THRESHOLDS}\n{_thresholds()}"


def _section(rule: Rule) -> str:
    words = document(rule)
    text = f"**Needs** {words.needs} **Speaks** {words.speaks} **Silent** {words.silent}"
    phases = f" Asked while {', '.join(rule.phases)}." if rule.phases is not None else ""
    return f"## `{rule.id}`\n\n{_filled(words.summary)}\n\n{_filled(text + phases)}\n"


def _thresholds() -> str:
    lines = ["| key | default | meaning |", "| --- | --- | --- |"]
    for area in dataclasses.fields(thresholds.DEFAULT):
        limits = getattr(thresholds.DEFAULT, area.name)
        meanings = _meanings(type(limits))
        lines += [
            f"| `{area.name}.{field.name}` | {getattr(limits, field.name)} | {meanings.get(field.name, '')} |"
            for field in dataclasses.fields(limits)
        ]
    return "\n".join(lines) + "\n"


def _meanings(limits: type) -> dict[str, str]:
    """The string below each field of a class."""
    (body,) = ast.parse(inspect.getsource(limits)).body
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(str(text.value.value).split()).replace("``", "`")
        for field, text in pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page())

"""What must stand in a line of bytes for a query to match the text it holds, found at the speed of memory.

Passing a gigabyte through a regular expression takes ten seconds, decoding its JSON four; finding some bytes in it
takes a third of one. So a query is turned into literal *forms*: byte strings of which every matching line holds at
least one, in each way that writers of JSON spell them. A line that holds none is never looked at; one that does may
still not match, which only its decoded text can tell. A regular expression has forms when a literal of three
characters or more is part of everything it matches.

Letter case: ASCII letters are compared in lower case, in a copy of the data. Every other letter has its spellings in
UTF-8; of a text made of such letters three are looked for, in all their cases. Left out: the few letters outside ASCII
that a regular expression without regard to case takes for ASCII ones (the Kelvin sign, the long s).
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

MIN_LITERAL = 3
"""Characters from which a literal of a regular expression selects lines better than matching them would."""

_MAX_ALTERNATIVES = 8
_CORE = 3
_ESCAPED = re.compile(r"\\u[0-9a-f]{4}")
_OTHER_LETTER = re.compile(rb"\\u|[\xc2-\xf4][\x80-\xbf]+")
"""In a form: how the first letter outside ASCII begins."""
_TRANSPARENT = (sre.AT, sre.ASSERT, sre.ASSERT_NOT)
"""Items of a pattern that match no character."""
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


class Finder:
    """Finds the lines of a block that hold one of several byte strings."""

    def __init__(self, forms: Iterable[bytes], *, ignore_case: bool) -> None:
        """``ignore_case``: of ASCII letters. The others are compared as they are."""
        self._ignore_case = ignore_case
        self._forms = tuple(dict.fromkeys(form.lower() if ignore_case else form for form in forms))

    def lines(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where in ``data`` the lines that hold a form begin and end (at their newline), in order."""
        forms = _possible(self._forms, data) if len(self._forms) > 1 else self._forms
        lower = self._ignore_case and any(form != form.upper() for form in forms)
        haystack = data.lower() if lower else data
        found = {form: haystack.find(form) for form in forms}
        while True:
            found = {form: at for form, at in found.items() if at >= 0}
            if not found:
                return
            at = min(found.values())
            start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
            end = len(data) if end < 0 else end
            yield start, end
            found = {form: haystack.find(form, end) if at < end else at for form, at in found.items()}


def _possible(forms: tuple[bytes, ...], data: bytes) -> list[bytes]:
    """Those of several forms that may be in ``data``, going by their other letters than ASCII's, raw and escaped.

    Most of what is searched is English: to look for two letters, or for none, is cheaper than for all their spellings.
    """
    signs = {form: sign[0] if (sign := _OTHER_LETTER.search(form)) else b"" for form in forms}
    there = {sign for sign in set(signs.values()) if sign[:1] in data and sign in data}
    return [form for form, sign in signs.items() if sign in there]


def forms(literals: Iterable[str], spell: Callable[[str], Iterable[bytes]], *, ignore_case: bool) -> list[bytes]:
    """The forms of literals of which one must be there, each as ``spell`` writes it."""
    chosen = [core for literal in literals for core in (_cores(literal) if ignore_case else (literal,))]
    return [form for core in chosen for form in spell(core)]


def json_spellings(text: str) -> list[bytes]:
    """``text`` within a JSON string: with other letters than ASCII's as they are, or escaped in either case of hex."""
    raw, escaped = json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
    upper = _ESCAPED.sub(lambda match: "\\u" + match[0][2:].upper(), escaped)
    return [plain_spelling(form) for form in dict.fromkeys((raw, escaped, upper))]


def plain_spelling(text: str) -> bytes:
    """``text`` in UTF-8; half a surrogate pair, which has no form there, as one that never occurs."""
    return text.encode(errors="surrogatepass")


def case_variants(char: str) -> set[str]:
    """The characters that count as ``char`` without regard to case. None of ASCII for one outside it."""
    if char.isascii():
        return {char.lower(), char.upper()}
    found, grown = {char}, {char}
    while grown:
        cased = {variant for known in grown for variant in (known.lower(), known.upper(), known.title())}
        grown = {variant for variant in cased if len(variant) == 1 and not variant.isascii()} - found
        found |= grown
    return found


def required_literals(pattern: str) -> tuple[list[str], bool] | None:
    """Literals one of which is part of all that ``pattern`` matches, and whether case may differ. None: there are none.

    Raises re.error, RecursionError or OverflowError when it is no regular expression.
    """
    parsed = sre_parser.parse(pattern)
    found = _best(list(parsed))
    if found is None:
        return None
    ignores = bool(parsed.state.flags & re.IGNORECASE) or "i" in "".join(re.findall(r"\(\?([a-zA-Z]+)", pattern))
    return found, ignores


def crosses_lines(pattern: str) -> bool:
    """Whether what ``pattern`` matches in a line may hang on what is outside it: looking around, ``\\A``, ``\\Z``."""
    return any(
        op in (sre.ASSERT, sre.ASSERT_NOT, sre.ATOMIC_GROUP, sre.POSSESSIVE_REPEAT)
        or (op is sre.AT and argument in (sre.AT_BEGINNING_STRING, sre.AT_END_STRING))
        for op, argument in _flat(list(sre_parser.parse(pattern)))
    )


def _cores(literal: str) -> list[str]:
    """Parts of a literal, one of which is there whatever the case: itself, unless it has letters outside ASCII."""
    parts = ["".join(run) for cased, run in itertools.groupby(literal, _is_cased) if not cased]
    longest = max(parts, key=len, default="")
    if longest == literal or len(longest) >= _CORE:
        return [longest]
    return ["".join(spelling) for spelling in itertools.product(*map(case_variants, literal[:_CORE]))]


def _is_cased(char: str) -> bool:
    return not char.isascii() and len(case_variants(char)) > 1


def _best(items: list[Any]) -> list[str] | None:
    """Of a sequence the literals that must occur: the run, or the choice among runs, whose shortest is longest."""
    best: list[str] | None = None
    run = ""
    waiting = items[::-1]
    while waiting:
        op, argument = waiting.pop()
        if op is sre.LITERAL:
            run += chr(argument)
            continue
        if op in _TRANSPARENT:
            continue
        if op is sre.SUBPATTERN or op is sre.ATOMIC_GROUP:
            waiting += list(argument[3] if op is sre.SUBPATTERN else argument)[::-1]
            continue
        best = _longer(best, [run])
        if op in _REPEATS and argument[0] >= 1:
            best = _longer(best, _best(list(argument[2])))
        elif op is sre.BRANCH:
            best = _longer(best, _choice(run, [list(branch) for branch in argument[1]]))
        run = ""
    return _longer(best, [run])


def _choice(before: str, branches: list[list[Any]]) -> list[str] | None:
    """Literals one of which a choice requires. ``before``: the literal right before it, with which they may begin."""
    if all(op is sre.LITERAL for branch in branches for op, _ in branch):
        found = [before + "".join(chr(char) for _, char in branch) for branch in branches]
    else:
        each = [_best(branch) for branch in branches]
        if None in each:
            return None
        found = [literal for choice in each for literal in choice or ()]
    return found if len(found) <= _MAX_ALTERNATIVES else None


def _longer(best: list[str] | None, found: list[str] | None) -> list[str] | None:
    if found is None or len(min(found, key=len)) < MIN_LITERAL:
        return best
    return found if best is None or len(min(found, key=len)) > len(min(best, key=len)) else best


def _flat(items: list[Any]) -> Iterator[tuple[Any, Any]]:
    """All items of a parsed pattern, however deep."""
    for op, argument in items:
        yield op, argument
        for part in argument if isinstance(argument, tuple | list) else (argument,):
            for nested in part if isinstance(part, list) else (part,):
                if isinstance(nested, sre_parser.SubPattern):
                    yield from _flat(list(nested))

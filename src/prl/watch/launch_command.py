"""The command line of a launch, as recorded: taken apart, changed option by option, and quoted for a shell again.

Only launches of ``rl`` and ``sft`` are known, as typed, through ``uv run`` or through ``python -m``. Options are
spelled as the run contract has them: dots descend, kebab-case and snake_case are the same, ``--no-x`` negates. What was
recorded is anybody's text: words that a shell would interpret are quoted, control characters are spelled out. Left out:
values that files give (:mod:`prl.watch.launch_site` reads those).
"""

import re
import shlex
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

PROGRAMS = ("rl", "sft")
_RUNNERS = re.compile(r"uv|python[\d.]*")
_MODULES = {f"prl.cli.{program}": program for program in PROGRAMS}
_TABLES = ("resume",)
"""Options that take a whole table, so that a file behind one belongs to it."""
_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]*")


class CommandError(ValueError):
    """A recorded command that is no launch of a run, with the reason."""


@dataclass(frozen=True)
class LaunchCommand:
    """A launch: how the program is started, and its options and files."""

    start: tuple[str, ...]
    """Words up to the program: ``rl``, or ``uv run rl``."""
    options: tuple[str, ...]
    program: str

    @property
    def files(self) -> list[str]:
        """Configuration files, as given, of the whole run and of parts of it."""
        spaced = [after for word, after in zip(self.options, self.options[1:], strict=False) if word == "@"]
        return spaced + [word[1:] for word in self.options if word.startswith("@") and len(word) > 1]

    @property
    def root_files(self) -> list[str]:
        """Configuration files of the whole run, in order."""
        before = ("", *self.options)
        return [
            self.options[place + 1]
            for place, word in enumerate(self.options[:-1])
            if word == "@" and not before[place].startswith("--")
        ]

    def value(self, key: str) -> str | None:
        """The value of the last option of this name (``run.name``); None when it is not given."""
        found = None
        for place, word in enumerate(self.options):
            if _key(word) == key:
                _, equals, value = word.partition("=")
                following = self.options[place + 1 : place + 2]
                found = value if equals else following[0] if following and _is_value(following[0]) else None
        return found

    def without(self, *keys: str) -> "LaunchCommand":
        """Without these options, what lies below them, and their negations."""
        kept: list[str] = []
        words = deque(self.options)
        while words:
            word = words.popleft()
            key = (_key(word) or "").removeprefix("no_")
            if not any(key == one or key.startswith(f"{one}.") for one in keys):
                kept.append(word)
                continue
            while words and _is_value(words[0]):
                words.popleft()
            # The table may stand in a file, ``@file`` or ``@ file``.
            if key in _TABLES and words and words[0].startswith("@") and words.popleft() == "@" and words:
                words.popleft()
        return replace(self, options=tuple(kept))

    def plus(self, *words: str) -> "LaunchCommand":
        return replace(self, options=(*self.options, *words))

    def by(self, interpreter: str) -> "LaunchCommand":
        """Started by this interpreter, where it is started by a name alone that a shell may look up elsewhere."""
        if self.start != (self.program,):
            return self
        return replace(self, start=(interpreter, "-m", f"prl.cli.{self.program}"))

    @property
    def line(self) -> str:
        """One line for a shell."""
        return shell_line((*self.start, *self.options))


def parse_command(text: str) -> LaunchCommand:
    """The recorded line of a launch. Raises :class:`CommandError`."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandError(f"its quotes do not close ({error})") from None
    if not words:
        raise CommandError("it is empty")
    first = PurePosixPath(words[0]).name
    if first in PROGRAMS:
        return LaunchCommand((words[0],), tuple(words[1:]), first)
    if _RUNNERS.fullmatch(first):
        for place, word in enumerate(words[1:], start=1):
            if word == "@":
                break
            name = _MODULES.get(word) if words[place - 1] == "-m" else PurePosixPath(word).name
            if name in PROGRAMS:
                return LaunchCommand(tuple(words[: place + 1]), tuple(words[place + 1 :]), name)
    raise CommandError(f"it starts neither {' nor '.join(PROGRAMS)}")


def shell_line(words: Sequence[str]) -> str:
    """Words as one line for bash or zsh, without a character that could move a cursor."""
    return " ".join(shlex.quote(word) if _PLAIN.fullmatch(word) else _spelled(word) for word in words)


def _spelled(word: str) -> str:
    """``$'...'``, in which control characters are spelled out."""
    shown = []
    for character in word:
        if character in "\\'":
            shown.append(f"\\{character}")
        elif _PLAIN.fullmatch(character):
            shown.append(character)
        else:
            shown += [f"\\x{byte:02x}" for byte in character.encode(errors="surrogatepass")]
    return f"$'{''.join(shown)}'"


def _key(word: str) -> str | None:
    """The name of an option, in snake case; None for what is no option."""
    return word[2:].partition("=")[0].replace("-", "_") if word.startswith("--") and len(word) > 2 else None


def _is_value(word: str) -> bool:
    return not word.startswith(("--", "@"))

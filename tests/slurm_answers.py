"""Recorded answers of SLURM for tests that have none: made-up jobs in the words of real programs."""

from collections.abc import Callable, Mapping

from prl.slurm.commands import Answer, Kind, Query, Trouble

NOW = 1_790_000_000.0

FIELDS = {
    "i": "4242",
    "A": "4242",
    "F": "4242",
    "K": "N/A",
    "j": "rl",
    "u": "ada",
    "P": "gpu",
    "T": "RUNNING",
    "r": "None",
    "N": "n[01-02]",
    "D": "2",
    "l": "1-00:00:00",
    "L": "23:00:00",
    "S": "1789996400",
    "e": "1790082800",
    "V": "1789996000",
    "Z": "/home/ada/project",
    "o": "/out/run/rl.sbatch",
    "k": "(null)",
    "B": "n01",
}
"""One job as ``squeue`` prints it, by the letters of its format."""


def mark_of(query: Query) -> str:
    """What stands after each field of a format made by the library."""
    return query.argv[-1].removeprefix("--format=").split("%")[1][1:]


def squeue(query: Query, *jobs: Mapping[str, str], at: float = NOW) -> Answer:
    """What ``squeue`` would print for these jobs (fields that differ from :data:`FIELDS`)."""
    mark = mark_of(query)
    letters = [part[:1] for part in query.argv[-1].removeprefix("--format=").split("%")[1:]]
    text = "".join("".join({**FIELDS, **job}[letter] + mark for letter in letters) + "\n" for job in jobs)
    return Answer(text, None, at)


def failed(program: str, kind: Kind, message: str = "", at: float = NOW) -> Answer:
    return Answer("", Trouble(kind, message, program), at)


class Recorded:
    """Plays SLURM: answers by program, and what was asked."""

    def __init__(self, **programs: Callable[[Query], Answer]) -> None:
        self.programs = programs
        self.asked: list[str] = []

    def __call__(self, query: Query) -> Answer:
        self.asked.append(query.argv[0])
        return self.programs[query.argv[0]](query)

"""Generated runs for ``benchmarks/dashboard.py``: made once below a directory, used again."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prl.rundir.layout import RunLayout
from prl.synth import RunShape, log_file, metrics_file, runs_tree, write_run
from prl.synth.shape import ENVIRONMENTS, Environment

LOG_BYTES = 200 * 10**6
METRIC_ROWS, METRIC_KEYS = 50_001, 200
"""524 MB."""
LONG = 100_000
"""Tokens of the long trace's answer."""


@dataclass(frozen=True)
class Data:
    """Where everything lies. Each directory is an output directory: a server sees only what it is asked about."""

    root: Path

    @property
    def big(self) -> Path:
        """50,000 episodes, 524 MB of metrics, 200 MB of logs."""
        return self.root / "big"

    @property
    def small(self) -> Path:
        """2,000 episodes."""
        return self.root / "small"

    @property
    def tokens(self) -> Path:
        """Episodes of about 2,000 tokens."""
        return self.root / "tokens"

    @property
    def long(self) -> Path:
        """Episodes of about 100,000 tokens."""
        return self.root / "long"

    @property
    def many(self) -> Path:
        """1,000 light runs."""
        return self.root / "many"


def prepare(root: Path, say: Callable[[str], None]) -> Data:
    """The runs below ``root``: what is not there whole is made."""
    data = Data(root)
    single = (Environment("reverse-text"),)
    for directory, make in (
        (data.big, lambda path: _big(path / "run")),
        (data.small, lambda path: write_run(path / "run", RunShape(steps=16, rollouts=128, environments=ENVIRONMENTS))),
        (data.tokens, lambda path: write_run(path / "run", _answers(1900, 8, single))),
        (data.long, lambda path: write_run(path / "run", _answers(LONG, 2, single))),
        (data.many, lambda path: runs_tree(path, 1000, seed=0)),
    ):
        done = root / f"{directory.name}.done"
        if done.exists():
            continue
        say(f"making {directory}")
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        make(directory)
        done.touch()
    return data


def _answers(tokens: int, rollouts: int, environments: tuple[Environment, ...]) -> RunShape:
    return RunShape(
        steps=2, rollouts=rollouts, group_size=2, answer_tokens=tokens, environments=environments, branch_rate=0.0
    )


def _big(root: Path) -> None:
    write_run(root, RunShape(steps=390, rollouts=128, environments=ENVIRONMENTS, seal=False))
    paths = RunLayout(root)
    metrics_file(paths.metrics, METRIC_ROWS, METRIC_KEYS)
    log_file(paths.attempt_logs(1) / "inference.log", LOG_BYTES)

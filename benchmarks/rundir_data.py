"""Generated runs for ``benchmarks/rundir.py``: made once below a directory, used again while their sizes stay."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from prl.rundir.layout import RunLayout
from prl.synth import RunShape, log_file, metrics_file, runs_tree, write_run
from prl.synth.shape import ENVIRONMENTS, Environment


@dataclass(frozen=True)
class Sizes:
    """How much there is of everything."""

    runs: int = 1000
    metric_rows: int = 50_001
    metric_keys: int = 200
    sparse_keys: int = 4000
    episodes: int = 50_000
    """With records of about 90 kB."""
    prompt_tokens: int = 1500
    answer_tokens: int = 2000
    many_episodes: int = 1_000_000
    """With records of about 2 kB."""
    evaluated: int = 50_000
    sealed: int = 10_000
    """As ``episodes``, compressed."""
    log_bytes: int = 10**9
    written_megabytes: int = 400


SMALL = Sizes(
    runs=40,
    metric_rows=2_000,
    sparse_keys=500,
    episodes=256,
    many_episodes=2_560,
    evaluated=512,
    sealed=256,
    log_bytes=20 * 10**6,
    written_megabytes=40,
)


@dataclass(frozen=True)
class Data:
    """Where everything lies."""

    root: Path

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics" / "metrics.jsonl"

    @property
    def sparse(self) -> Path:
        return self.root / "sparse" / "metrics.jsonl"

    @property
    def log(self) -> Path:
        return self.root / "log" / "inference.log"

    def traces(self, name: str) -> Path:
        """Of ``episodes``, ``million``, ``evaluation`` or ``sealed``."""
        return RunLayout(self.root / name).traces


def prepare(root: Path, sizes: Sizes) -> Data:
    """Make what is missing below ``root``."""
    data = Data(root)
    makers: dict[str, tuple[dict[str, int], Callable[[Path], object]]] = {
        "runs": ({"runs": sizes.runs}, lambda path: runs_tree(path, sizes.runs)),
        "metrics": (
            {"rows": sizes.metric_rows, "keys": sizes.metric_keys},
            lambda path: metrics_file(path / "metrics.jsonl", sizes.metric_rows, sizes.metric_keys),
        ),
        "sparse": (
            {"rows": sizes.metric_rows, "keys": sizes.sparse_keys},
            lambda path: metrics_file(path / "metrics.jsonl", sizes.metric_rows, sizes.sparse_keys, sparse=True),
        ),
        "log": ({"bytes": sizes.log_bytes}, lambda path: log_file(path / "inference.log", sizes.log_bytes)),
    }
    for name, shape in shapes(sizes).items():
        what = {key: value for key, value in asdict(shape).items() if isinstance(value, int)}
        makers[name] = (what, lambda path, shape=shape: write_run(path, shape))  # type: ignore[misc]
    for name, (what, make) in makers.items():
        mark = root / f"{name}.json"
        if not mark.exists() or json.loads(mark.read_text()) != what:
            print(f"making {root / name} ...", file=sys.stderr, flush=True)
            mark.unlink(missing_ok=True)
            shutil.rmtree(root / name, ignore_errors=True)
            make(root / name)
            mark.write_text(json.dumps(what))
    return data


def shapes(sizes: Sizes) -> dict[str, RunShape]:
    """The runs with episodes."""
    # Of the answers' length, half to one and a half times the average is written.
    large = RunShape(
        state="running",
        environments=ENVIRONMENTS[:1],
        rollouts=128,
        steps=max(sizes.episodes // 128, 1),
        prompt_tokens=sizes.prompt_tokens,
        answer_tokens=sizes.answer_tokens,
        branch_rate=0.0,
        eval_interval=0,
        ranks=1,
    )
    small = RunShape(
        state="running",
        environments=(ENVIRONMENTS[0], Environment("word-sort", metrics=("exact", "kendall_tau"))),
        rollouts=1024,
        steps=max(sizes.many_episodes // 1024, 1),
        prompt_tokens=8,
        answer_tokens=8,
        branch_rate=0.0,
        eval_interval=0,
        annotations=False,
        ranks=1,
    )
    return {
        "episodes": large,
        "million": small,
        "evaluation": RunShape(
            kind="eval",
            state="finished",
            environments=ENVIRONMENTS[:1],
            steps=1,
            rollouts=sizes.evaluated,
            group_size=1,
            prompt_tokens=40,
            answer_tokens=40,
            seal=False,
        ),
        "sealed": RunShape(
            state="finished",
            environments=ENVIRONMENTS[:1],
            rollouts=128,
            steps=max(sizes.sealed // 128, 1),
            prompt_tokens=sizes.prompt_tokens,
            answer_tokens=sizes.answer_tokens,
            branch_rate=0.0,
            eval_interval=0,
            annotations=False,
            ranks=1,
        ),
    }

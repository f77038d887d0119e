"""What a sample run is to be like: its kind, its sizes and how it ended."""

import hashlib
from dataclasses import dataclass
from typing import Literal

Kind = Literal["rl", "sft", "eval"]
State = Literal["running", "finished", "failed", "stopped", "hung"]
Layout = Literal["A", "B", "C"]
Writer = Literal["prl", "prime-rl"]

START = 1_795_946_400.0
"""2026-11-29 10:00:00 UTC, when sample runs begin unless told otherwise."""

MAX_ANSWER = 100_000
"""Tokens of an answer on average, for which there are made-up signals."""


@dataclass(frozen=True)
class Environment:
    """One environment of a run."""

    name: str
    agents: tuple[str, ...] = ("agent",)
    """One trace an episode for each."""
    turns: tuple[int, int] = (1, 1)
    """The fewest and the most answers of one agent."""
    tools: bool = False
    """Whether agents call tools: every answer but the last does."""
    metrics: tuple[str, ...] = ("exact",)
    tasks: int = 200
    """How many different tasks there are. Each comes up again and again."""
    difficulty: float = 0.5
    """0: solved from the start; 1: never."""


ENVIRONMENTS = (
    Environment("reverse-text", difficulty=0.3),
    Environment("word sort+hint", turns=(1, 3), tools=True, metrics=("exact", "kendall_tau", "tool_calls")),
    Environment("duel", agents=("proposer", "solver"), turns=(2, 4), metrics=("moves", "legal_share"), difficulty=0.7),
)
"""Three of different kinds: one turn, tools with a name that needs quoting, two agents."""


@dataclass(frozen=True)
class RunShape:
    """A run to write. All sizes are free: memory does not grow with them. Raises ValueError for what makes no run."""

    kind: Kind = "rl"
    state: State = "finished"
    """``running``: it goes on; ``hung``: its processes live and nothing has advanced for :attr:`stall_seconds`."""
    layout: Layout = "C"
    writer: Writer = "prl"
    """Whose run: prime-rl's has no launcher's word, no values file and no tokenizer, but colours in its logs."""
    steps: int = 40
    """Steps that were made (of an evaluation: the epochs)."""
    max_steps: int | None = None
    """Default: ``steps`` of a finished run, else twice as many."""
    environments: tuple[Environment, ...] = ENVIRONMENTS[:2]
    rollouts: int = 64
    """Training episodes a step (of an evaluation: episodes of each environment an epoch)."""
    group_size: int = 8
    prompt_tokens: int = 80
    answer_tokens: int = 60
    """Of each answer, on average."""
    branch_rate: float = 0.1
    """Share of traces that were taken up again from an earlier message."""
    error_rate: float = 0.01
    eval_interval: int = 10
    """Steps between evaluations; 0: none."""
    eval_examples: int = 16
    attempts: int = 1
    """More than one: each resumes from a checkpoint and repeats the steps after it."""
    checkpoint_interval: int = 10
    chunk_bytes: int = 5 * 1024**3
    seal: bool = True
    """Whether chunks that are full, and the last one of an ended run, are compressed."""
    episodes: bool = True
    annotations: bool = True
    ranks: int = 2
    """Trainer ranks. Two or more have stream files of their own."""
    inference_nodes: int = 1
    step_seconds: float = 20.0
    stall_seconds: float = 3600.0
    nonfinite_steps: tuple[int, ...] = ()
    """Steps at which the trainer drops a NaN loss."""
    model: str = "made-up/tiny-0.6b"
    host: str = "node-1"
    """Where the processes are said to run: another host than this one, whose processes nobody mistakes for them."""
    start: float = START
    seed: int = 0
    name: str | None = None
    """Default: made of environments, model and seed, as launchers do."""

    def __post_init__(self) -> None:
        if self.steps < 1 or self.rollouts < 1 or self.group_size < 1 or not self.environments:
            raise ValueError("a run has at least one step, one rollout a step, groups of one and one environment")
        if self.answer_tokens > MAX_ANSWER:
            raise ValueError(f"answer_tokens={self.answer_tokens}: at most {MAX_ANSWER:,}")
        if self.rollouts % self.group_size and self.kind == "rl":
            raise ValueError(f"rollouts={self.rollouts} is no multiple of group_size={self.group_size}")
        if not 1 <= self.attempts <= self.steps:
            raise ValueError(f"attempts={self.attempts}: from 1 to one a step ({self.steps})")
        if self.layout != "C" and (self.attempts > 1 or self.writer == "prl"):
            raise ValueError(f"layout {self.layout} is of prime-rl's older runs, which had no attempts")

    @property
    def limit(self) -> int:
        """The configured number of steps."""
        if self.max_steps is not None:
            return self.max_steps
        return self.steps if self.state == "finished" else 2 * self.steps

    @property
    def ended(self) -> bool:
        return self.state in ("finished", "failed", "stopped")

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that belong to this shape."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:32]

    @property
    def run_name(self) -> str:
        if self.name is not None:
            return self.name
        envs = "+".join(dict.fromkeys(environment.name for environment in self.environments))
        return f"{envs}--{self.model.rpartition('/')[2]}--{self.digest[:8]}".lower()

    @property
    def producer(self) -> str:
        """Who writes episodes and their rows: the orchestrator, or the evaluation's runner."""
        return "eval" if self.kind == "eval" else "orch"

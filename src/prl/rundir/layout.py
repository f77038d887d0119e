"""Where things lie in a run directory (layout C of the run contract). Paths only: nothing here touches a file.

The tree, with the names a reader of the contract expects::

    <output_dir>/<run_name>/
      configs/latest -> attempt_N        configs/attempt_N/{command.txt, rl.toml, environment.json, resolved/}
      logs/latest -> attempt_N           logs/attempt_N/{launcher,trainer,orchestrator,inference}.log,
                                         logs/attempt_N/envs/<split>/<name>.log
      launcher/status.json               processes of the current attempt, refreshed every few seconds
      tokenizer/                         the tokenizer that episodes were made with
      checkpoints/step_N/{trainer,orchestrator}/
      broadcasts/step_V/                 weights of policy version V with the handshake markers
      weights/step_N/                    the result, loadable by ``from_pretrained``
      monitors/file/metrics.jsonl, monitors/file/traces/
      STATUS.md                          check-ins
"""

from dataclasses import dataclass
from pathlib import Path

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
)
"""What a tokenizer consists of, of which a model has some: copied to ``tokenizer/`` and to the result."""

METRICS = ("monitors/file/metrics.jsonl", "metrics.jsonl")
"""Where metrics lie below a run directory, the newest layout first."""
EPISODE_INDEX = "monitors/file/traces/stream.index.jsonl"
LAUNCHER_STATUS = "launcher/status.json"

MAX_DIGITS = 12
"""Digits of the number of an attempt, step or version."""


@dataclass(frozen=True)
class RunLayout:
    """Paths of one run directory."""

    root: Path

    @property
    def configs(self) -> Path:
        return self.root / "configs"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def launcher(self) -> Path:
        return self.root / "launcher"

    @property
    def status_json(self) -> Path:
        return self.launcher / "status.json"

    @property
    def status_md(self) -> Path:
        return self.root / "STATUS.md"

    @property
    def tokenizer(self) -> Path:
        return self.root / "tokenizer"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def broadcasts(self) -> Path:
        return self.root / "broadcasts"

    @property
    def weights(self) -> Path:
        return self.root / "weights"

    @property
    def file_monitor(self) -> Path:
        return self.root / "monitors" / "file"

    @property
    def metrics(self) -> Path:
        return self.file_monitor / "metrics.jsonl"

    @property
    def traces(self) -> Path:
        return self.file_monitor / "traces"

    @property
    def trainer_step(self) -> Path:
        """Text file with the number of the last finished trainer step."""
        return self.root / "trainer_step"

    def attempt_configs(self, attempt: int) -> Path:
        return self.configs / f"attempt_{attempt}"

    def attempt_logs(self, attempt: int) -> Path:
        return self.logs / f"attempt_{attempt}"

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step_{step}"

    def broadcast(self, version: int) -> Path:
        return self.broadcasts / f"step_{version}"


def run_of(file: Path) -> Path:
    """The run directory of a file of metrics or episodes, by names alone: what stands before ``monitors/file``; in
    the oldest layout the directory that the file lies in."""
    for parent in file.parents:
        if parent.name == "file" and parent.parent.name == "monitors":
            return parent.parent.parent
    return file.parent


def attempt_number(path: Path) -> int | None:
    """The ``N`` of a directory named ``attempt_N``, else ``None``."""
    return numbered(path.name, "attempt_")


def step_number(path: Path) -> int | None:
    """The ``N`` of a directory named ``step_N``, else ``None`` (``step_4.tmp`` is not a step)."""
    return numbered(path.name, "step_")


def numbered(name: str, prefix: str) -> int | None:
    """The decimal number after ``prefix`` when nothing else follows it, else ``None``.

    A number of more than :data:`MAX_DIGITS` digits is none: no counter gets there, and somebody else made the name.
    """
    digits = name.removeprefix(prefix)
    plain = name.startswith(prefix) and digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS
    return int(digits) if plain else None

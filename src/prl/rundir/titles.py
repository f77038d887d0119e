"""Process titles, by which people and monitors find the processes of a run in ``ps``.

This project writes ``PRL::<Component>``; runs of older prime-rl releases wrote ``PRIME-RL::<Component>``. Both are
matched by :data:`TITLE_PATTERN`.
"""

import os
import re

TITLE_PATTERN = re.compile(r"^(?:PRL|PRIME-RL)::(\w+)")

LAUNCHER = "PRL::Launcher"
WATCHDOG = "PRL::Watchdog"
INFERENCE = "PRL::Inference"
ENV_SERVER = "PRL::EnvServer"
ENV_WORKER = "Verifiers::EnvWorker{index}"
ORCHESTRATOR = "PRL::Orchestrator"
TRAINER = "PRL::Trainer"
SFT_TRAINER = "PRL::SFTTrainer"


def set_process_title(title: str) -> None:
    """Title this process. ``SPT_NOENV`` keeps setproctitle from overwriting the environment others read in /proc."""
    os.environ.setdefault("SPT_NOENV", "1")
    from setproctitle import setproctitle

    setproctitle(title)

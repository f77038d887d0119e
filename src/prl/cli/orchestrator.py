"""``orchestrator @ orchestrator.json``: the orchestrator of a run.

Exit status: 0 when ``max_steps`` were shipped and the last policy was applied, 1 otherwise, 64 for a wrong
configuration.
"""

import sys

from prl.cli.requirements import require_train


def main() -> None:
    require_train("orchestrator")
    from prl.config import OrchestratorConfig, load_config

    config = load_config(OrchestratorConfig, prog="orchestrator", description="The orchestrator of a run.")
    from prl.orchestrator.process import run_orchestrator

    sys.exit(run_orchestrator(config))


if __name__ == "__main__":
    main()

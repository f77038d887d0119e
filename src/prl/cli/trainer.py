"""``trainer @ trainer.json``: one rank of the RL trainer.

Started by torchrun (``-m prl.cli.trainer``), once a rank; alone it is the only rank. Exit status: 0 when it trained to
the end, 1 after an error, 64 for a wrong configuration.
"""

from prl.cli.requirements import require_train


def main() -> None:
    """Train the policy on the batches that the orchestrator ships."""
    require_train("trainer")
    from prl.config import TrainerConfig, load_config
    from prl.rundir.process import die_with_parent
    from prl.trainer.process import end, run_rl

    die_with_parent()  # torchrun's own death, if it is killed, reaches nobody else
    end(run_rl(load_config(TrainerConfig, prog="trainer", description="Train the policy of a run.")))


if __name__ == "__main__":
    main()

"""``python -m prl.cli.sft_trainer @ sft.json``: one rank of supervised fine-tuning.

Started by torchrun, once a rank, for ``sft``; alone it is the only rank. Exit status as of ``trainer``.
"""

from prl.cli.requirements import require_train


def main() -> None:
    """Fine-tune a model on conversations."""
    require_train("sft-trainer")
    from prl.config import SFTConfig, load_config
    from prl.rundir.process import die_with_parent
    from prl.trainer.process import end, run_sft

    die_with_parent()  # torchrun's own death, if it is killed, reaches nobody else
    end(run_sft(load_config(SFTConfig, prog="sft-trainer", description="Fine-tune a model on conversations.")))


if __name__ == "__main__":
    main()

"""``sft @ sft.toml``: supervised fine-tuning. Same run directory layout as ``rl``, same exit status."""

import sys

from prl.cli.requirements import require_train


def main() -> None:
    """Launch a supervised run and supervise it to its end."""
    require_train("sft")
    from prl.cli.launching import Introducing, Showing, conclude, introduce, page_of, screen, show_verdict
    from prl.config import SFTConfig, load_config
    from prl.launch.run import launch_sft

    config = load_config(SFTConfig, prog="sft", description="Warm-start a language model on conversations.")
    with screen(config.log.level, json_logging=config.log.json_logging) as shown:
        showing = Showing(Introducing(shown, introduce), page_of(config))
        outcome = launch_sft(config, argv=sys.argv[1:], on_event=showing)
    sys.exit(conclude(outcome, show_verdict, showing.page))


if __name__ == "__main__":
    main()

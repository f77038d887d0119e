"""``rl @ rl.toml``: reinforcement learning, from the first process to the verdict.

Exit status: 0 finished (or dry run complete), 1 a component failed, 64 configuration, 65 run directory, 130 and 143
ended by Ctrl-C and SIGTERM.
"""

import sys

from prl.cli.requirements import require_train


def main() -> None:
    """Launch a run and supervise it to its end."""
    require_train("rl")
    from prl.cli.launching import Introducing, Showing, conclude, introduce, page_of, screen, show_verdict
    from prl.config import RLConfig, load_config
    from prl.launch.run import launch

    config = load_config(RLConfig, prog="rl", description="Train a language model by reinforcement learning.")
    with screen(config.log.level, json_logging=config.log.json_logging) as shown:
        showing = Showing(Introducing(shown, introduce), page_of(config))
        outcome = launch(config, argv=sys.argv[1:], on_event=showing)
    sys.exit(conclude(outcome, show_verdict, showing.page))


if __name__ == "__main__":
    main()

"""``prl``: the watch side's command. Each subcommand is a module that is imported only when it is called."""

import importlib
import os
import sys

import click

COMMANDS = {
    "runs": ("prl.cli.runs", "runs"),
    "status": ("prl.cli.status", "status"),
    "episodes": ("prl.cli.episodes", "episodes"),
    "episode": ("prl.cli.episode", "episode"),
    "metrics": ("prl.cli.metrics", "metrics"),
    "logs": ("prl.cli.logs", "logs"),
    "check-in": ("prl.cli.check_in", "check_in"),
    "restart-plan": ("prl.cli.restart_plan", "restart_plan"),
    "rules": ("prl.cli.rules", "rules"),
}
"""Subcommands by name: module and attribute."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="prl", prog_name="prl")
def prl() -> None:
    """How the runs in a directory are doing.

    RUN is a run directory, the name of a run below the output directory, a unique beginning of one, or absent: then
    the most recently changed run below $PRL_OUTPUT_DIR (default: outputs).
    """


def main() -> None:
    """Entry point. Exits with the subcommand's status; 64 when the command line is wrong."""
    try:
        code = prl.main(prog_name="prl", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = os.EX_USAGE
    except click.Abort:
        code = 130
    except BrokenPipeError:  # `prl status | head`
        sys.stderr.close()
        code = 0
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()

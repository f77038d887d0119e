"""``prl``: the watch side's command. Each subcommand is a module that is imported only when it is called."""

import gc
import importlib
import logging
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
    "doctor": ("prl.cli.doctor", "doctor"),
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
        try:
            command: click.Command = getattr(importlib.import_module(module), attribute)
        except Exception as error:  # one broken module is not to take the others' help away
            return _broken(cmd_name, error)
        return command


class HarmlessFormatter(logging.Formatter):
    """What the library and others warn of, which names files: one harmless line each, as all that is printed."""

    def format(self, record: logging.LogRecord) -> str:
        from prl.watch.outward import safe

        return safe(super().format(record))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="prl", prog_name="prl")
def prl() -> None:
    """How the runs in a directory are doing.

    RUN is a run directory, the name of a run below the output directory, a unique beginning of one, or absent: then
    the most recently changed run below $PRL_OUTPUT_DIR (default: outputs).
    """


def main() -> None:
    """Entry point. Exits with the subcommand's status; 64 when the command line is wrong."""
    # Loading and reading make many objects and hardly a cycle of them: the usual 700 cost a tenth of a verdict's time.
    gc.set_threshold(100_000)
    handler = logging.StreamHandler()
    handler.setFormatter(HarmlessFormatter("%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.captureWarnings(capture=True)
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
    gc.freeze()  # nor need the interpreter look for one at its end
    sys.exit(code if isinstance(code, int) else 0)


def _broken(name: str, error: Exception) -> click.Command:
    """What stands for a command whose module cannot be imported."""
    from prl.watch.outward import safe

    problem = safe(f"{type(error).__name__}: {error}")

    def fail(arguments: tuple[str, ...]) -> int:
        del arguments
        click.echo(f"prl {name} cannot be loaded. {problem}", err=True)
        return os.EX_SOFTWARE

    anything = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True}
    return click.Command(
        name, callback=fail, params=[anything], help=f"(cannot be loaded: {problem})", context_settings=settings
    )


if __name__ == "__main__":
    main()

"""``python -m prl.synth DIR``: write a sample run, to look at or to try something on."""

import sys
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress

from prl.synth import RunShape, runs_tree, write_run
from prl.synth.shape import ENVIRONMENTS, Environment


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--kind", type=click.Choice(["rl", "sft", "eval"]), default="rl")
@click.option("--state", type=click.Choice(["running", "finished", "failed", "stopped", "hung"]), default="finished")
@click.option("--layout", type=click.Choice(["A", "B", "C"]), default="C", help="A and B: prime-rl's older runs.")
@click.option(
    "--writer", type=click.Choice(["prl", "prime-rl"]), help="Whose run. [default: prl; prime-rl for A and B]"
)
@click.option("--steps", type=click.IntRange(1), default=40)
@click.option("--episodes", type=click.IntRange(1), default=64, help="Training episodes a step.")
@click.option("--group-size", type=click.IntRange(1), default=8)
@click.option("--prompt-tokens", type=click.IntRange(1), default=80)
@click.option("--answer-tokens", type=click.IntRange(1), default=60, help="Of each answer, on average.")
@click.option(
    "--env", "envs", multiple=True, metavar="NAME", help="Environments. [default: reverse-text, word sort+hint]"
)
@click.option("--attempts", type=click.IntRange(1), default=1, help="More than one: each resumes and repeats steps.")
@click.option("--seed", type=int, default=0)
@click.option("--count", type=click.IntRange(1), help="Write this many light runs below DIRECTORY instead.")
def main(directory: Path, count: int | None, envs: tuple[str, ...], episodes: int, **options: Any) -> None:
    """Write a made-up run to DIRECTORY, which must be absent or empty."""
    known = {environment.name: environment for environment in ENVIRONMENTS}
    if envs:
        options["environments"] = tuple(known.get(name, Environment(name)) for name in envs)
    options["writer"] = options["writer"] or ("prl" if options["layout"] == "C" else "prime-rl")
    with Progress(transient=True) as bars:
        tasks: dict[str, Any] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what)
            bars.update(tasks[what], completed=done, total=total)

        try:
            if count is not None:
                runs_tree(directory, count, seed=options["seed"], progress=progress)
            else:
                write_run(directory, RunShape(rollouts=episodes, **options), progress)
        except (ValueError, OSError) as error:
            raise click.ClickException(str(error)) from None
    click.echo(directory)


if __name__ == "__main__":
    sys.exit(main())

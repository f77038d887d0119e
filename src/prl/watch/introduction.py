"""What a run is, for the first check-in of an attempt: model, environments, length, command, processes, place."""

from prl.watch.facts import Facts
from prl.watch.launch_command import shell_line
from prl.watch.outward import safe

_MAX_NAMES = 20
_MAX_COMMAND = 2000


def introduction(facts: Facts) -> list[str]:
    """Lines of Markdown. What nothing says is left out."""
    run, launch = facts.run, facts.launch
    length = f"{run.max_steps} steps" if run.max_steps is not None else "no end set"
    resumed = f", from the checkpoint of step {run.resume_step}" if run.resume_step is not None else ""
    model = f", model {run.model}" if run.model else ""
    lines = [f"**Run**: {safe(f'{run.name} ({run.kind}){model}, {length}{resumed}')}"]
    if run.envs:
        lines.append(f"**Environments**: {_names(run.envs)}")
    if launch is not None and launch.command is not None:
        lines.append(f"**Command**: {safe(launch.command, _MAX_COMMAND)}")
    if launch is not None and launch.cwd is not None:
        where = f" on {launch.host}" if launch.host else ""
        by = f", interpreter {launch.interpreter}" if launch.interpreter else ""
        lines.append(f"**Launched in**: {safe(f'{shell_line([launch.cwd])}{where}{by}')}")
    if facts.processes:
        lines.append(f"**Processes**: {_names([f'{one.name} ({one.pid} on {one.host})' for one in facts.processes])}")
    if facts.jobs:
        lines.append(f"**SLURM**: {_names([f'job {one.id} ({one.raw_state or one.state})' for one in facts.jobs])}")
    return lines


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(safe(name) for name in names[:_MAX_NAMES]) + more

"""The plan of a restart, and the check after one, as plain text for a terminal."""

from collections.abc import Iterable, Iterator

from prl.text.secrets import mask_secrets
from prl.text.terminal import for_terminal
from prl.watch.conditions import Condition
from prl.watch.outward import safe
from prl.watch.restart import Command, RestartPlan
from prl.watch.resumption import Resumption
from prl.watch.words import step_words

_MAX_EVIDENCE = 2
_VERDICTS = {"yes": "Restart warranted", "no": "No restart", "unknown": "Whether to restart is not known"}
_RESULTS = {
    "resumed": "Resumed",
    "not yet": "Not resumed yet",
    "not resumed": "Not resumed",
    "unknown": "Not known",
}
_WIDTH = 16


def whole(command: Command) -> str:
    """A command's line as it is typed: never cut, secrets masked."""
    return mask_secrets(for_terminal(command.line))


def render_plan(plan: RestartPlan) -> str:
    """The plan. Ends in a newline."""
    return "\n".join(_plan_lines(plan)) + "\n"


def render_resumption(resumption: Resumption) -> str:
    """What became of a restart. Ends in a newline."""
    return "\n".join(_resumption_lines(resumption)) + "\n"


def _plan_lines(plan: RestartPlan) -> Iterator[str]:
    attempt = f", attempt {plan.attempt}" if plan.attempt is not None else ""
    yield f"{safe(plan.run)}{attempt}  ({safe(plan.run_dir)})"
    yield f"{_VERDICTS[plan.warranted]}: {safe(plan.why)}"
    yield ""
    if plan.command is None:
        yield f"There is no command: {safe(plan.refused or 'nothing is recorded')}"
    else:
        yield f"The command{f', on {safe(plan.host)}' if plan.host else ''}, for whoever owns the run to type:"
        yield from _command(plan.command)
    if plan.submission:
        yield f"SLURM: {safe(plan.submission)}"
    yield ""
    yield "What must hold first:"
    yield from _conditions(plan.conditions)
    for title, texts in (("lost", plan.lost), ("kept", plan.kept)):
        if texts:
            yield ""
            yield from (f"{title + ':':<{_WIDTH}}{safe(text)}" for text in texts)
    if plan.alternatives:
        yield ""
        yield "Instead:"
        for command in plan.alternatives:
            yield from _command(command)
    if plan.verify:
        yield ""
        yield "Afterwards:"
        for command in plan.verify:
            yield from _command(command)
    yield ""
    yield from (safe(note) for note in plan.notes)
    if any(whole(command) != command.line for command in [plan.command, *plan.alternatives] if command is not None):
        yield "What looks like a secret in the command is masked here; configs/attempt_N/command.txt has it."


def _resumption_lines(resumption: Resumption) -> Iterator[str]:
    attempt = f", attempt {resumption.attempt}" if resumption.attempt is not None else ""
    yield f"{safe(resumption.run)}{attempt}  ({safe(resumption.run_dir)})"
    step = step_words(resumption.step, resumption.max_steps, endless=resumption.endless)
    yield f"{_RESULTS[resumption.result]}: {resumption.phase}, {resumption.health}, step {step}"
    yield from _conditions(resumption.conditions)


def _command(command: Command) -> Iterator[str]:
    yield f"    {whole(command)}"
    yield f"        {safe(command.does)}"


def _conditions(conditions: Iterable[Condition]) -> Iterator[str]:
    for condition in conditions:
        yield f"{f'[{condition.state}]':<{_WIDTH}}{condition.name}: {safe(condition.text)}"
        if condition.state == "holds":
            continue
        yield from (f"{'':<{_WIDTH}}{safe(one.source)}: {safe(one.text)}" for one in condition.evidence[:_MAX_EVIDENCE])
        if condition.action:
            yield f"{'':<{_WIDTH}}-> {safe(condition.action)}"

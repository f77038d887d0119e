"""Rules about main memory. The memory of devices is told by the errors that its end leaves in the logs."""

from prl.text.human import format_bytes
from prl.watch.facts import Process
from prl.watch.rules.base import Rule, incident_evidence, restart
from prl.watch.verdict import CRITICAL, FAILED, FAILING, LIVE, WARNING, Evidence, Finding
from prl.watch.view import View

_KILLED = -9
_HOST_OOM = ("slurm.oom", "slurm.task_oom", "os.oomkill")


def short(view: View) -> Finding | None:
    """Main memory runs out.

    Needs: the memory of the host that the run lives on, or the limit of its control group.
    Speaks: when less than {host.memory_low:.0%} of either is left.
    Silent: on other hosts, and after the end.
    """
    memory = view.facts.memory
    if memory is None:
        return None
    low = view.limits.host.memory_low
    said = []
    if memory.limit and memory.used is not None and memory.limit - memory.used < low * memory.limit:
        said.append(f"{format_bytes(memory.used)} of the {format_bytes(memory.limit)} of its control group are used")
    if memory.total and memory.available < low * memory.total:
        said.append(f"{format_bytes(memory.available)} of {format_bytes(memory.total)} of the host are available")
    if not said:
        return None
    return Finding(
        rule="memory.short",
        severity=WARNING,
        message=f"Main memory runs out: {' and '.join(said)}",
        evidence=[Evidence(memory.source, text, time=view.facts.as_of) for text in said],
        cause="workers of environments, traces in flight or offloaded weights take more than there is",
        action="Fewer workers of environments or episodes in flight at the next launch, or more memory. When it is "
        "gone the kernel kills the largest process.",
    )


def killed(view: View) -> Finding | None:
    """The kernel killed a process for want of memory: critical when the run lost a process, else a warning.

    Needs: a line of the kernel or of SLURM in a log of the attempt.
    Speaks: when such a kill is told of, with the process that ended by SIGKILL where one did. It is told apart from a
    device that is out of memory, which leaves `CUDA out of memory` and kills nobody.
    Silent: without such a line. The control group's own count is evidence beside it, never alone: it counts whatever
    ran there before.
    """
    incidents = view.incidents(*_HOST_OOM)
    if not incidents:
        return None
    ended = view.phase in (FAILING, FAILED)
    victims = [process for process in view.facts.processes if process.exit_code == _KILLED]
    memory = view.facts.memory
    evidence = [incident_evidence(one) for one in incidents[:2]]
    if memory is not None and memory.oom_kills:
        evidence.append(Evidence(memory.source, f"oom_kill {memory.oom_kills}", time=view.facts.as_of))
    return Finding(
        rule="memory.killed",
        severity=CRITICAL if ended else WARNING,
        message=f"The kernel killed a process for want of main memory{_names(victims)}",
        evidence=evidence,
        cause="main memory, or the limit of the control group, was used up",
        action=restart(view)
        if ended
        else "See which process is gone (workers of environments are replaced), and give the run more memory.",
    )


def _names(victims: list[Process]) -> str:
    named = ", ".join(f"{process.name} (pid {process.pid}) ended by SIGKILL" for process in victims)
    return f": {named}" if named else ""


RULES = (Rule("memory.short", short, LIVE), Rule("memory.killed", killed, (*LIVE, FAILING, FAILED)))

"""Rules about the SLURM job that a run lives in. Commands are handed over, never run."""

from prl.slurm.values import ExitCode
from prl.text.human import format_duration
from prl.watch.phases import FAILURES, HOLDING
from prl.watch.rules.base import Rule, cause_evidence, incident_evidence, restart, what_broke
from prl.watch.surroundings import JobNode, SlurmJob
from prl.watch.verdict import (
    CRITICAL,
    FAILED,
    FAILING,
    FINISHED,
    INFO,
    LIVE,
    PHASE_UNKNOWN,
    PREEMPTED,
    QUEUED,
    REQUEUED,
    STOPPED,
    WARNING,
    Evidence,
    Finding,
)
from prl.watch.view import View

_BAD_NODES = frozenset({"DOWN", "FAIL", "ERROR", "NOT_RESPONDING", "DRAINED", "POWERED_DOWN"})


def pending(view: View) -> Finding | None:
    """The job waits for long, or for what will not come.

    Needs: the job as SLURM has it.
    Speaks: when it waits for more than {jobs.pending:.0f} s since it was submitted, with the reason in plain words and
    when SLURM expects to start it; at once when the reason is one that waiting does not mend (held, no such account, a
    time limit above the partition's, a dependency that cannot be met).
    Silent: before that: a queued run is Healthy.
    """
    job = view.job
    if job is None:
        return None
    age = view.facts.as_of - job.submitted if job.submitted is not None else None
    never = job.blocked
    if not never and (age is None or age <= view.limits.jobs.pending):
        return None
    ahead = job.started - view.facts.as_of if job.started is not None else 0.0
    expected = f"; SLURM expects to start it in {format_duration(ahead)}" if ahead > 0 else ""
    lasted = f" for {format_duration(age)}" if age is not None else ""
    return Finding(
        rule="slurm.pending",
        severity=WARNING,
        message=f"Job {job.id} waits{lasted}: {_reason(job)}{expected}",
        evidence=[_evidence(job, f"{job.state}, reason {job.reason or 'not told'}")],
        cause=_reason(job),
        action=_release(job)
        if never
        else "Nothing, unless the reason names a limit of yours. Fewer nodes or a shorter time limit start sooner.",
    )


def preempted(view: View) -> Finding | None:
    """The job was preempted.

    Needs: the job as SLURM has it.
    Speaks: while it waits to be started again, while SLURM does not say whether it does (where preempted jobs are
    cancelled none does), and when it has left the queue, with the checkpoint that it would resume from.
    Silent: once it runs again.
    """
    return _interrupted(view)


def requeued(view: View) -> Finding | None:
    """The job was requeued and waits to be started again.

    Needs: the job as SLURM has it.
    Speaks: while it waits, with how often it was restarted, the reason, and the checkpoint that it will resume from; of
    one that is held, that it waits for somebody.
    Silent: once it runs again.
    """
    return _interrupted(view)


def time_limit(view: View) -> Finding | None:
    """The job's time limit is near.

    Needs: the time that SLURM leaves the job, the median step, and the steps at which checkpoints are written.
    Speaks: when less than {jobs.time_left:.0f} s are left, or less than {jobs.steps_left} steps take, with how many
    steps fit in and whether a checkpoint is written before.
    Silent: when the run will have made its last step by then.
    """
    job, median = view.job, view.facts.progress.median_step
    left = _time_left(view, job)
    if job is None or left is None:
        return None
    limits = view.limits.jobs
    if left > max(limits.time_left, limits.steps_left * (median or 0.0)):
        return None
    steps = int(left / median) if median else None
    last, step = view.facts.run.max_steps, view.step
    if steps is not None and last is not None and step is not None and step + steps >= last:
        return None
    fits = f"; about {steps} more steps fit in" if steps is not None else ""
    return Finding(
        rule="slurm.time-limit",
        severity=WARNING,
        message=f"Job {job.id} ends at its time limit in {format_duration(left)}{fits}; {_saved_before(view, steps)}",
        evidence=[_evidence(job, f"time left {format_duration(left)}")],
        cause="the time limit is shorter than the run",
        action="Submit the same command with --resume for the rest, or ask an administrator to extend the limit: "
        f"scontrol update JobId={job.id} TimeLimit=<new limit>",
    )


def node_failure(view: View) -> Finding | None:
    """A node of the job failed.

    Needs: the job and its nodes as SLURM has them, or the line in the job log.
    Speaks: when the job ended for the failure of a node, or one of its nodes is down, with the node and SLURM's reason.
    Silent: about nodes that are only drained of new jobs.
    """
    job = view.job
    if job is None:
        return None
    bad = [node for node in job.nodes if node.state.rstrip("*") in _BAD_NODES or node.state.endswith("*")]
    said = view.incidents("slurm.nodefail")
    if not bad and job.state not in ("NODE_FAIL", "BOOT_FAIL") and not said:
        return None
    if not bad and job.state in HOLDING and said and (said[-1].last_time or 0.0) < (job.started or 0.0):
        return None  # of an earlier start of the same job
    return Finding(
        rule="slurm.node-failure",
        severity=CRITICAL,
        message=f"Job {job.id}: {', '.join(map(_node, bad)) if bad else 'a node failed'}",
        evidence=[_evidence(job, f"{job.raw_state or job.state}"), *map(incident_evidence, said[:1])],
        cause="the node's hardware, network or file system",
        action=f"Launch it again without that node (--exclude). {restart(view)}",
    )


def out_of_memory(view: View) -> Finding | None:
    """SLURM ended the job, or a task of it, because it used more memory than it asked for.

    Needs: the job's end as SLURM has it, or its line in the job log.
    Speaks: when the job's state is OUT_OF_MEMORY; when the run does not go on and that of a step is, or a line of
    `slurmstepd` tells of it.
    Silent: when a device is out of memory, which SLURM does not see.
    """
    job = view.job
    said = view.incidents("slurm.oom", "slurm.task_oom")
    if job is None:
        return None
    of_step = "out of memory" in (job.step_failure or "")
    if job.state != "OUT_OF_MEMORY" and not ((said or of_step) and view.phase in (FAILING, FAILED)):
        return None
    return Finding(
        rule="slurm.out-of-memory",
        severity=CRITICAL,
        message=f"Job {job.id} used more main memory than it asked for",
        evidence=[
            _evidence(job, job.step_failure if of_step and job.step_failure else job.raw_state or job.state),
            *map(incident_evidence, said[:2]),
        ],
        cause="the memory of the job's control group was used up (main memory, not that of a device)",
        action=f"Ask for more (--mem), or run fewer workers of environments. {restart(view)}",
    )


def ended(view: View) -> Finding | None:
    """The job ended and the run is not done.

    Needs: the job's end as SLURM has it.
    Speaks: when it failed, ran into its time limit or ended with success although the run never wrote its finish lines.
    Silent: when a rule with more to say speaks (a node's failure, memory, a crash of a component), and when somebody
    cancelled it: the verdict's reason says so.
    """
    job = view.job
    if job is None or view.last_words is not None or view.cause is not None or out_of_memory(view) is not None:
        return None
    if job.state not in FAILURES - {"NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"} | {"COMPLETED"}:
        return None
    code = f", {_exit(job)}" if job.exit_code or job.signal else ""
    step = f"; {job.step_failure}" if job.step_failure else ""
    how = {
        "TIMEOUT": "reached its time limit",
        "DEADLINE": "reached its deadline",
        "COMPLETED": "ended with success, but the run never wrote its finish line",
    }.get(job.state, f"ended as {job.state}")
    return Finding(
        rule="slurm.ended",
        severity=CRITICAL,
        message=f"Job {job.id} {how}{code}{step}, at step {view.step if view.step is not None else '?'}",
        evidence=[_evidence(job, f"{job.raw_state or job.state}{code}{step}")],
        cause=job.step_failure or job.reason_text or how,
        action=restart(view),
    )


def grace(view: View) -> Finding | None:
    """The run has failed and its job holds the nodes, so that others can finish writing.

    Needs: the line of the job log that a component ended and the rest is waited for.
    Speaks: while the job runs after it, with how long the nodes are held at most and the command that gives them back.
    Silent: without that line.
    """
    job = view.job
    if job is None or not view.in_grace or job.grace_since is None:
        return None
    until = job.grace_since + job.grace_seconds if job.grace_seconds is not None else None
    left = f", for {format_duration(max(until - view.facts.as_of, 0.0))} more at most" if until is not None else ""
    writing = view.saving or any(one.state == "writing" for one in view.facts.checkpoint_states)
    return Finding(
        rule="slurm.grace",
        severity=CRITICAL,
        message=f"A component has failed and job {job.id} still holds {_nodes(job)}{left}",
        evidence=[
            Evidence(job.log or job.source, "the job log tells of the grace period", time=job.grace_since),
            *cause_evidence(view),
        ],
        cause=what_broke(view),
        action=("A checkpoint is being written: wait for it. Then give" if writing else "Give")
        + f" the nodes back: scancel {job.id}",
    )


def finished_holding(view: View) -> Finding | None:
    """The run has ended and its job still holds nodes.

    Needs: the job as SLURM has it, and the finish lines, or the end that the launcher recorded.
    Speaks: when the job runs {jobs.holding:.0f} s after that, with the command that ends it.
    Silent: before that: the servers end after the workers; in the time that a job log gives others to finish writing;
    and when the job runs on after a requeue.
    """
    job, last = view.job, _last_word(view)
    if job is None or job.state not in HOLDING or last is None or last.time is None:
        return None
    if view.facts.as_of - last.time <= view.limits.jobs.holding or (job.started or 0.0) > last.time:
        return None
    how = "finished" if view.phase == FINISHED else "ended"
    return Finding(
        rule="slurm.finished-holding",
        severity=WARNING,
        message=f"The run {how} {format_duration(view.facts.as_of - last.time)} ago and job {job.id} still holds "
        f"{_nodes(job)}",
        evidence=[last, _evidence(job, job.state)],
        cause="a server was not told to end, or does not heed it, or the job's script goes on after the run",
        action=f"When what it wrote is safe, give the nodes back: scancel {job.id}",
    )


def _last_word(view: View) -> Evidence | None:
    """The last sign that the run has ended: a worker's finish line, or else the launcher's record."""
    launcher = view.facts.launcher
    if view.phase != FINISHED:
        if launcher is None or launcher.ended is None:
            return None
        return Evidence(launcher.source, f"launcher: {launcher.phase}", time=launcher.ended)
    marks = [view.facts.mark(f"{worker}_done", worker) for worker in view.workers]
    done = max((mark for mark in marks if mark is not None), key=lambda mark: mark.time or 0.0, default=None)
    return Evidence(done.file, done.text, offset=done.offset, time=done.time) if done is not None else None


def silent(view: View) -> Finding | None:
    """SLURM's controller does not answer: the job's state is its last known word.

    Needs: the job as SLURM last had it.
    Speaks: as information, when that is older than {jobs.silent:.0f} s, with its age, or when nothing could be learned
    at all. It says nothing about the run's health; where only an old word says that the run lives, the phase is unknown
    unless its counters advance.
    Silent: when the job had ended by then.
    """
    job = view.job
    if job is None or job.ended is not None or (job.as_of is None and job.problem is None):
        return None
    age = view.facts.as_of - job.as_of if job.as_of is not None else None
    if age is not None and age <= view.limits.jobs.silent:
        return None
    if age is not None:
        message = f"SLURM does not answer: its last word on job {job.id} is {job.state}, {format_duration(age)} ago"
    else:
        asked = "SLURM does not answer: nothing" if job.asked else "Nothing"
        message = f"{asked} is known of job {job.id}" + (f": {job.problem}" if not job.asked else "")
    return Finding(
        rule="slurm.silent",
        severity=INFO,
        message=message,
        evidence=[_evidence(job, job.problem or job.state)],
        cause=job.problem or "the controller is down or overloaded",
        action="Nothing about the run: what its files say still holds. Ask again later.",
    )


def _interrupted(view: View) -> Finding | None:
    job = view.job
    if job is None:
        return None
    complete = view.facts.checkpoints.complete
    back = f"from step {complete[-1]}" if complete else "from the beginning: it has no complete checkpoint"
    times = f" (restarted {job.restarts} times)" if job.restarts else ""
    waits = view.phase == REQUEUED or job.waits_again
    what = "was preempted" if view.phase == PREEMPTED else "was requeued"
    if waits:
        now, action = f" and waits: {_reason(job)}", f"Nothing: it starts again by itself and resumes {back}."
        if job.blocked:
            action = f"{_release(job)} It then resumes {back}."
    elif job.ended is None:
        now = "; SLURM does not say that it starts again"
        action = f"Look whether it comes back (squeue -j {job.id}): where preempted jobs are cancelled none does. "
        action += restart(view)
    else:
        now, action = " and has left the queue", f"It does not start again by itself. {restart(view)}"
    return Finding(
        rule="slurm.preempted" if view.phase == PREEMPTED else "slurm.requeued",
        severity=WARNING,
        message=f"Job {job.id} {what}{times}{now}",
        evidence=[_evidence(job, job.raw_state or job.state)],
        cause="a job of higher priority took its nodes"
        if view.phase == PREEMPTED
        else "the job failed, or lost a node",
        action=action,
    )


def _exit(job: SlurmJob) -> str:
    return ExitCode(job.exit_code or 0, job.signal or 0, cut=job.source == "sacct").plain


def _release(job: SlurmJob) -> str:
    """What lets a job start that SLURM will never start by itself."""
    if job.held:
        return f"It is held: scontrol release {job.id} lets it start, once what it was held for is settled."
    return f"It will not start like this: mend what the reason names and submit it again (scancel {job.id} first)."


def _time_left(view: View, job: SlurmJob | None) -> float | None:
    """Seconds until the limit, from when SLURM said it."""
    if job is None or job.state not in HOLDING or job.time_left is None:
        return None
    return max(job.time_left - (view.facts.as_of - (job.as_of or view.facts.as_of)), 0.0)


def _saved_before(view: View, steps: int | None) -> str:
    """Whether a checkpoint is written in the steps that are left."""
    complete, step = view.facts.checkpoints.complete, view.step
    interval = view.facts.run.checkpoint_interval
    if interval is None and len(complete) > 1:
        interval = complete[-1] - complete[-2]
    newest = f"the newest complete checkpoint is step {complete[-1]}" if complete else "no checkpoint is complete yet"
    if not interval or steps is None or step is None:
        return newest
    coming = (step // interval + 1) * interval
    if coming <= step + steps:
        return f"a checkpoint is due at step {coming}, before it"
    lost = step + steps - (complete[-1] if complete else 0)
    return f"none is due before it ({newest}): about {lost} steps will be lost"


def _reason(job: SlurmJob) -> str:
    return job.reason_text or job.reason or "SLURM gives no reason"


def _node(node: JobNode) -> str:
    role = f" ({node.role})" if node.role else ""
    return f"node {node.name}{role} is {node.state}" + (f": {node.reason}" if node.reason else "")


def _nodes(job: SlurmJob) -> str:
    count = len(job.nodes)
    return f"{count} nodes" if count > 1 else f"node {job.nodes[0].name}" if count else "its nodes"


def _evidence(job: SlurmJob, text: str) -> Evidence:
    return Evidence(f"{job.source}, job {job.id}", text, time=job.as_of)


RULES = (
    Rule("slurm.node-failure", node_failure, (*LIVE, FAILING, FAILED)),
    Rule("slurm.out-of-memory", out_of_memory, (*LIVE, FAILING, FAILED)),
    Rule("slurm.grace", grace, (FAILING,)),
    Rule("slurm.ended", ended, (FAILED, PHASE_UNKNOWN, STOPPED)),
    Rule("slurm.preempted", preempted, (PREEMPTED,)),
    Rule("slurm.requeued", requeued, (REQUEUED,)),
    Rule("slurm.pending", pending, (QUEUED,)),
    Rule("slurm.finished-holding", finished_holding, (FINISHED, FAILED, STOPPED)),
    Rule("slurm.time-limit", time_limit, LIVE),
    Rule("slurm.silent", silent, (QUEUED, REQUEUED, *LIVE, FAILING, PHASE_UNKNOWN)),
)

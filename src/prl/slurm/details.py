"""What ``squeue`` does not tell of a job: restarts, exit code, output path. By ``scontrol show job``, or from JSON.

``scontrol`` prints ``Key=value`` after ``Key=value`` with nothing around values that hold spaces, so a job name or a
comment can look like another key. The text is cut at the names of keys that are known, the name ends where the user
begins, of a key that comes twice the first counts, and of the paths at the end the last. The free texts of
:func:`prl.slurm.jobs.query_jobs` are exact, these are not. ``squeue --json`` is never asked, but read where somebody
has recorded it.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from prl.slurm import values
from prl.slurm.commands import SECONDS, Query, Runner, run
from prl.slurm.jobs import Job, JobsAnswer, checked_id, output_values
from prl.slurm.states import parse_state
from prl.slurm.values import ExitCode

_KEY = re.compile(
    r" ("
    r"ArrayJobId|ArrayTaskId|ArrayTaskThrottle|HetJobId|HetJobOffset|HetJobIdSet|JobName|UserId|"
    r"GroupId|MCS_label|Priority|Nice|Account|QOS|WCKey|JobState|Reason|FailedNode|Dependency|"
    r"Requeue|Restarts|BatchFlag|Reboot|ExitCode|DerivedExitCode|RunTime|TimeLimit|TimeMin|"
    r"SubmitTime|EligibleTime|AccrueTime|StartTime|EndTime|Deadline|PreemptEligibleTime|PreemptTime|"
    r"SuspendTime|SecsPreSuspend|LastSchedEval|Scheduler|Partition|AllocNode:Sid|ReqNodeList|"
    r"ExcNodeList|NodeList|BatchHost|SchedNodeList|NumNodes|NumCPUs|NumTasks|CPUs/Task|ReqB:S:C:T|"
    r"ReqTRES|AllocTRES|TRES|Socks/Node|NtasksPerN:B:S:C|CoreSpec|ThreadSpec|MinCPUsNode|"
    r"MinMemoryNode|MinMemoryCPU|MinTmpDiskNode|Features|Prefer|DelayBoot|Reservation|OverSubscribe|"
    r"Contiguous|Licenses|LicensesAlloc|Network|Gres|Command|WorkDir|AdminComment|SystemComment|"
    r"Comment|Extra|StdErr|StdIn|StdOut|BatchScript|Power|SegmentSize|CpusPerTres|MemPerTres|"
    r"TresBind|TresFreq|TresPerJob|TresPerNode|TresPerSocket|TresPerTask|MailUser|MailType|Switches|"
    r"ResvPorts|OriginCluster|SiblingsActive|SiblingsViable"
    r")="
)
_RECORD = re.compile(r"^JobId=(\d+) (?=ArrayJobId=|HetJobId=|JobName=)", re.M)
_OWNER = re.compile(r" UserId=\S+\(\d+\) GroupId=")
_NAME = re.compile(rf"JobName=(.*?)(?={_OWNER.pattern})", re.S)
_LAST_COUNTS = frozenset({"WorkDir", "StdErr", "StdIn", "StdOut"})


def show_job(job_id: str, runner: Runner = run, seconds: float = SECONDS) -> JobsAnswer:
    """A job (of an array all its tasks) by ``scontrol show job``, which forgets it some minutes after its end.

    Raises ValueError for what is no job id.
    """
    answer = runner(Query(("scontrol", "--oneliner", "show", "job", checked_id(job_id)), seconds))
    jobs = JobsAnswer(read_scontrol(answer.text), answer.at, answer.trouble)
    return JobsAnswer(jobs.of(job_id), answer.at, answer.trouble)


def read_scontrol(text: str) -> tuple[Job, ...]:
    """The jobs of ``scontrol --oneliner show job``. A name with a newline does not split its record."""
    heads: list[re.Match[str]] = []
    for head in _RECORD.finditer(text):
        # What looks like a record before the user of the last one was named belongs to that one's name.
        if not heads or _OWNER.search(text, heads[-1].end(), head.start()):
            heads.append(head)
    cuts = [*(head.start() for head in heads), len(text)]
    return tuple(_job(head[1], text[head.end() : end]) for head, end in zip(heads, cuts[1:], strict=True))


def read_json(text: str) -> tuple[Job, ...]:
    """The jobs of a recorded ``squeue --json``, of any version; none for what is not that."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    records = tree.get("jobs") if isinstance(tree, dict) else None
    if not isinstance(records, list):
        return ()
    return tuple(_json_job(record) for record in records if isinstance(record, dict))


def _fields(text: str) -> dict[str, str]:
    """The keys and values of one record (what follows ``JobId=…``)."""
    found: dict[str, str] = {}
    name = _NAME.search(text)
    if name is not None:
        found["JobName"] = name[1]
        text = text[: name.start()] + text[name.end() :]
    text = f" {text}"
    matches = list(_KEY.finditer(text))
    cuts = [*(match.start() for match in matches), len(text)]
    for match, end in zip(matches, cuts[1:], strict=True):
        if match[1] in _LAST_COUNTS or match[1] not in found:
            found[match[1]] = text[match.end() : end].removesuffix("\n")
    return found


def _job(number: str, text: str) -> Job:
    field = _fields(text)
    known = {key: values.text_or_none(value.strip()) for key, value in field.items()}
    array = known.get("ArrayJobId")
    index = known.get("ArrayTaskId")
    throttle = known.get("ArrayTaskThrottle")
    leader, part = known.get("HetJobId"), known.get("HetJobOffset")
    if leader is not None and part is not None:
        job_id = f"{leader}+{part}"
    elif array is None or index is None:
        job_id = number
    elif index.isdigit():
        job_id = f"{array}_{index}"
    else:
        job_id = f"{array}_[{index}{f'%{throttle}' if throttle and '%' not in index else ''}]"
    job = Job(
        id=job_id,
        state=parse_state(field.get("JobState", "")),
        reason=known.get("Reason") or "",
        raw_id=number,
        array_id=array,
        array_index=index,
        name=field.get("JobName"),
        user=(known.get("UserId") or "").partition("(")[0] or None,
        partition=known.get("Partition"),
        node_list=known.get("NodeList") or "",
        node_count=values.count(field.get("NumNodes")),
        batch_host=known.get("BatchHost"),
        time_limit=values.duration(field.get("TimeLimit", "")),
        submitted=values.moment(field.get("SubmitTime", "")),
        start=values.moment(field.get("StartTime", "")),
        end=values.moment(field.get("EndTime", "")),
        work_dir=known.get("WorkDir"),
        command=known.get("Command"),
        comment=known.get("Comment"),
        restarts=values.count(field.get("Restarts")),
        requeue={"0": False, "1": True}.get(field.get("Requeue", "")),
        exit=values.exit_code(field.get("ExitCode", "")),
    )
    return _with_output(job, known.get("StdOut"))


def _with_output(job: Job, path: str | None) -> Job:
    """The job with its output path expanded, below its working directory where it is relative."""
    if path is None:
        return job
    expanded = values.expand_path(path, output_values(job))
    if not expanded.startswith("/") and job.work_dir:
        expanded = f"{job.work_dir}/{expanded}"
    return dataclasses.replace(job, stdout=expanded)


def _json_job(record: Mapping[str, Any]) -> Job:
    number = _number_text(record.get("job_id"))
    array = _number_text(record.get("array_job_id"))
    index = _text(record, "array_task_string") or _number_text(record.get("array_task_id"))
    array = None if array in (None, "0") or index is None else array
    nodes, node_count = _json_nodes(record)
    job = Job(
        id=number or "" if array is None else f"{array}_{index}" if (index or "").isdigit() else f"{array}_[{index}]",
        state=parse_state(record.get("job_state")),
        reason=values.text_or_none(_text(record, "state_reason") or "") or "",
        raw_id=number,
        array_id=array,
        array_index=index if array else None,
        name=_text(record, "name"),
        user=_text(record, "user_name"),
        partition=_text(record, "partition"),
        node_list=nodes,
        node_count=node_count,
        batch_host=_text(record, "batch_host"),
        time_limit=values.json_seconds(record.get("time_limit"), 60),
        submitted=values.json_seconds(record.get("submit_time")) or None,
        start=values.json_seconds(record.get("start_time")) or None,
        end=values.json_seconds(record.get("end_time")) or None,
        work_dir=_text(record, "current_working_directory"),
        command=_text(record, "command"),
        comment=_text(record, "comment"),
        restarts=values.count(record.get("restart_cnt")),
        requeue=record["requeue"] if isinstance(record.get("requeue"), bool) else None,
        exit=_json_exit(record.get("exit_code")),
    )
    return _with_output(job, _text(record, "standard_output"))


def _json_nodes(record: Mapping[str, Any]) -> tuple[str, int | None]:
    """The host list and the number of nodes: a text and a number beside it, or both in an object."""
    nodes = record.get("nodes")
    if isinstance(nodes, dict):
        hosts = nodes.get("list")
        names = [host for host in hosts if isinstance(host, str)] if isinstance(hosts, list) else []
        return ",".join(names) or (hosts if isinstance(hosts, str) else ""), values.count(nodes.get("count"))
    return nodes if isinstance(nodes, str) else "", values.count(record.get("node_count"))


def _json_exit(value: object) -> ExitCode | None:
    """An exit code: the number that ``wait`` gives (status and signal in one), or an object of both."""
    if isinstance(value, dict) and "return_code" in value:
        ended_by = value.get("signal")
        number = ended_by.get("id", ended_by.get("signal_id")) if isinstance(ended_by, dict) else 0
        return ExitCode(values.count(value["return_code"]) or 0, values.count(number) or 0)
    number = values.count(value)
    return None if number is None else ExitCode(number >> 8 & 0xFF, number & 0x7F)


def _text(record: Mapping[str, Any], key: str) -> str | None:
    value = record.get(key)
    return value if isinstance(value, str) and value else None


def _number_text(value: object) -> str | None:
    number = values.count(value)
    return None if number is None else str(number)

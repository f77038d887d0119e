"""What SLURM knows of a run's job: allow-listed, bounded questions and typed answers.

Nothing here submits, changes or ends a job. Whoever asks gets what SLURM says, how old it is, and in words why it is
not more. Texts in the answers are other people's: they must be made safe before they are shown.
"""

from prl.slurm.accounting import Accounting, accounting
from prl.slurm.commands import Answer, Kind, Query, Trouble
from prl.slurm.finding import FoundJob, find_job
from prl.slurm.hosts import expand
from prl.slurm.joblog import JobLog, parse_job_log
from prl.slurm.jobs import Job, JobsAnswer, query_jobs
from prl.slurm.memory import SlurmMemory
from prl.slurm.nodes import Node, query_nodes
from prl.slurm.probe import probe
from prl.slurm.standing import Standing
from prl.slurm.states import JobState, parse_state

__all__ = [
    "Accounting",
    "Answer",
    "FoundJob",
    "Job",
    "JobLog",
    "JobState",
    "JobsAnswer",
    "Kind",
    "Node",
    "Query",
    "SlurmMemory",
    "Standing",
    "Trouble",
    "accounting",
    "expand",
    "find_job",
    "parse_job_log",
    "parse_state",
    "probe",
    "query_jobs",
    "query_nodes",
]

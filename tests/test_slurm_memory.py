"""What is remembered of jobs, and how often SLURM is asked."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.slurm.commands import Answer, Kind, Query
from prl.slurm.memory import SlurmMemory
from slurm_answers import NOW, Recorded, failed, squeue
from test_slurm_details import line


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Cluster:
    """A SLURM whose queue and accounting a test sets, and a memory of it."""

    def __init__(self, path: Path | None = None) -> None:
        self.clock = Clock()
        self.queue: list[dict[str, str]] = [{"i": "4242"}]
        self.sacct: Callable[[Query], Answer] = lambda query: failed("sacct", Kind.ACCOUNTING_DISABLED)
        self.silent = False
        self.slurm = Recorded(
            squeue=self._squeue,
            sacct=self._sacct,
            scontrol=lambda query: Answer(line(), None, self.clock.now),
        )
        self.path = path
        self.memory = self.command()

    def command(self) -> SlurmMemory:
        """The memory as another command of the same user opens it."""
        return SlurmMemory(self.path, self.slurm, self.clock)

    def phase(self, job_id: str = "4242", force: bool = False) -> str:
        return self.memory.standings([job_id], force=force)[job_id].phase

    def _sacct(self, query: Query) -> Answer:
        return self.sacct(query)

    def _squeue(self, query: Query) -> Answer:
        if self.silent:
            return failed("squeue", Kind.TIMED_OUT, "no answer within 10 s", self.clock.now)
        return squeue(query, *self.queue, at=self.clock.now)


def accounted(state: str) -> Callable[[Query], Answer]:
    def sacct(query: Query) -> Answer:
        mark = query.argv[-1].removeprefix("--delimiter=")
        return Answer(f"JobID|State|ExitCode\n4242|{state}|0:0\n".replace("|", mark), None, NOW)

    return sacct


def test_controller_is_not_asked_more_often_than_every_thirty_seconds() -> None:
    cluster = Cluster()
    cluster.queue = [{"i": "4242"}, {"i": "4243"}]
    for _ in range(3):
        cluster.memory.standings(["4242", "4243"])
    assert cluster.slurm.asked == ["squeue"]
    cluster.clock.now += 31
    cluster.memory.standings(["4242", "4243"])
    assert cluster.slurm.asked == ["squeue"] * 2
    # A job that was not asked for yet is, and all of them with it.
    cluster.memory.standings(["4242", "4243", "4244"])
    assert cluster.slurm.asked == ["squeue"] * 3 + ["sacct"]
    cluster.memory.standings(["4242"], force=True)
    assert cluster.slurm.asked.count("squeue") == 4
    # A clock that was set back does not keep it from asking.
    cluster.clock.now -= 1000
    cluster.memory.standings(["4242"])
    assert cluster.slurm.asked.count("squeue") == 5


def test_silent_controller_leaves_the_last_state_with_its_age() -> None:
    cluster = Cluster()
    assert cluster.phase() == "running"
    cluster.silent = True
    cluster.clock.now += 60
    stale = cluster.memory.standings(["4242"])["4242"]
    assert (stale.phase, stale.stale, stale.age) == ("running", True, 60)
    # Nor is it asked in vain again and again.
    cluster.clock.now += 10
    assert cluster.memory.standings(["4242"])["4242"].age == 70
    assert cluster.slurm.asked == ["squeue"] * 2
    # That it does not answer does not mean that the job is gone.
    assert stale.absent_since is None
    assert cluster.memory.standings(["7"])["7"].phase == "unknown"
    cluster.silent = False
    cluster.clock.now += 60
    fresh = cluster.memory.standings(["4242"])["4242"]
    assert (fresh.stale, fresh.age) == (False, 0)


def test_job_that_left_the_queue_is_looked_up_once_a_minute() -> None:
    cluster = Cluster()
    cluster.phase()
    cluster.queue = []
    cluster.clock.now += 31
    assert cluster.phase() == "gone"
    assert cluster.slurm.asked == ["squeue", "squeue", "sacct"]
    cluster.clock.now += 31
    cluster.phase()
    assert cluster.slurm.asked[3:] == ["squeue"]
    cluster.sacct = accounted("COMPLETED")
    cluster.clock.now += 31
    standing = cluster.memory.standings(["4242"])["4242"]
    assert cluster.slurm.asked[4:] == ["squeue", "sacct"]
    assert (standing.phase, standing.plain, standing.absent_since) == ("ended", "completed", NOW + 31)


def test_result_seen_in_the_queue_outlives_it() -> None:
    cluster = Cluster()
    cluster.queue = [{"i": "4242", "T": "TIMEOUT"}]
    assert cluster.phase() == "ended"
    cluster.queue = []
    cluster.clock.now += 400
    standing = cluster.memory.standings(["4242"])["4242"]
    assert (standing.phase, standing.plain) == ("ended", "reached its time limit")


def test_preempted_job_comes_back_under_its_id() -> None:
    cluster = Cluster()
    cluster.phase()
    cluster.queue, cluster.sacct = [], accounted("PREEMPTED")
    cluster.clock.now += 31
    assert cluster.phase() == "requeued"
    cluster.queue = [{"i": "4242", "T": "PENDING", "r": "BeginTime"}]
    cluster.clock.now += 31
    standing = cluster.memory.standings(["4242"])["4242"]
    assert (standing.phase, standing.absent_since, standing.accounting) == ("pending", None, None)
    cluster.queue = []
    cluster.clock.now += 31
    assert cluster.phase(force=True) == "requeued"
    cluster.clock.now += 310
    assert cluster.phase() == "ended"


def test_answer_about_one_job_says_nothing_of_another() -> None:
    cluster = Cluster()
    cluster.phase()
    cluster.silent = True
    cluster.clock.now += 31
    assert cluster.memory.standings(["4242"])["4242"].stale
    cluster.silent = False
    assert cluster.phase("7") == "gone"
    assert cluster.memory.standings(["4242"])["4242"].stale


def test_damaged_answer_proves_no_absence() -> None:
    cluster = Cluster()
    cluster.queue = [{"i": "oops"}]
    assert cluster.memory.standings(["4242"])["4242"].absent_since is None


def test_programs_that_print_something_else_prove_nothing() -> None:
    cluster = Cluster()
    assert cluster.phase() == "running"
    garbage = Recorded(**dict.fromkeys(("squeue", "sacct"), lambda query: Answer("see sq --help\n", None, NOW)))
    memory = SlurmMemory(None, garbage, cluster.clock)
    standing = memory.standings(["4242"])["4242"]
    assert (standing.phase, standing.plain) == ("unknown", "not known: squeue: not understood (see sq --help)")
    # Nor does accounting that cannot be read, of a job that really left the queue.
    gone = Recorded(squeue=lambda query: Answer("", None, NOW), sacct=garbage.programs["sacct"])
    standing = SlurmMemory(None, gone, cluster.clock).standings(["4242"])["4242"]
    assert standing.plain == "ended, result unknown (sacct: not understood (see sq --help))"


def test_details_cost_one_question_more() -> None:
    cluster = Cluster()
    standing = cluster.memory.details("4242")
    assert standing.job is not None
    assert (standing.job.restarts, standing.job.stdout) == (2, "/w d/run.log")
    # What squeue says stays.
    assert (standing.phase, standing.job.work_dir) == ("running", "/home/ada/project")
    cluster.memory.details("4242")
    assert cluster.slurm.asked == ["squeue", "scontrol"]
    cluster.clock.now += 31
    # The next answer of squeue does not lose them.
    again = cluster.memory.standings(["4242"])["4242"]
    assert again.job is not None
    assert again.job.restarts == 2
    cluster.queue = []
    cluster.clock.now += 31
    cluster.memory.details("4242")
    assert cluster.slurm.asked.count("scontrol") == 1


def test_array_stands_as_its_liveliest_task() -> None:
    cluster = Cluster()
    array = {"F": "4244", "N": ""}
    cluster.queue = [
        {**array, "i": "4244_[3-8]", "A": "4244", "K": "3-8", "T": "PENDING"},
        {**array, "i": "4244_1", "A": "4245", "K": "1", "T": "COMPLETED"},
        {**array, "i": "4244_2", "A": "4246", "K": "2", "T": "RUNNING"},
    ]
    standing = cluster.memory.standings(["4244"])["4244"]
    assert standing.job is not None
    assert standing.job.id == "4244_2"


def test_my_jobs_are_kept_too() -> None:
    cluster = Cluster()
    cluster.queue = [{"i": "4242"}, {"i": "4243"}]
    assert [job.id for job in cluster.memory.mine().jobs] == ["4242", "4243"]
    cluster.memory.standings(["4243"])
    assert cluster.slurm.asked == ["squeue"]
    cluster.silent = True
    cluster.clock.now += 31
    kept = cluster.memory.mine()
    assert [job.id for job in kept.jobs] == ["4242", "4243"]
    assert kept.at == NOW
    assert kept.trouble is not None


def test_commands_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "state" / "slurm.json"
    cluster = Cluster(path)
    cluster.queue = [{"i": "4242", "l": "UNLIMITED", "j": "ü\n"}]
    first = cluster.memory.details("4242")
    cluster.memory.mine()
    cluster.clock.now += 5
    asked = len(cluster.slurm.asked)
    other = cluster.command()
    second = other.details("4242")
    assert (second.job, second.age) == (first.job, 5)
    assert [job.id for job in other.mine().jobs] == ["4242"]
    assert len(cluster.slurm.asked) == asked
    cluster.queue, cluster.sacct = [], accounted("OUT_OF_MEMORY")
    cluster.clock.now += 31
    cluster.phase()
    third = cluster.command().standings(["4242"])["4242"]
    assert third.plain == "out of memory on a node"
    cluster.silent = True
    cluster.clock.now += 31
    cluster.command().standings(["4242"])
    assert cluster.command().standings(["4242"])["4242"].trouble is not None
    assert path.stat().st_mode & 0o077 == 0
    assert [entry.name for entry in path.parent.iterdir()] == ["slurm.json"]


def test_file_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Cluster(tmp_path / "file" / "slurm.json").phase() == "running"


def test_kept_jobs_are_bounded(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "slurm.json")
    for start in range(0, 1200, 400):
        cluster.memory.standings([str(number) for number in range(start, start + 400)])
        cluster.clock.now += 1
    tree = json.loads((tmp_path / "slurm.json").read_text())
    assert len(tree["jobs"]) == 500
    assert "1199" in tree["jobs"]


def test_what_is_no_job_id_is_not_kept() -> None:
    cluster = Cluster()
    with pytest.raises(ValueError, match="not a job id"):
        cluster.memory.standings(["4242", "x"])
    assert cluster.phase() == "running"


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=5), inner, max_size=2)),
    max_leaves=4,
)
TIMES = st.one_of(st.floats(), st.integers(), st.just(10**400), JSON)
RECORD = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("seen", "asked", "absent", "detailed", "accounted"), TIMES),
        **dict.fromkeys(("job", "ended", "trouble"), JSON),
    },
)
TREE = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "jobs": st.one_of(JSON, st.dictionaries(st.just("4242"), RECORD)),
        "mine": st.one_of(st.just([]), JSON),
        "mine_asked": TIMES,
        "mine_trouble": st.one_of(st.none(), JSON),
    }
)


@given(st.one_of(st.binary(max_size=40), TREE.map(lambda tree: json.dumps(tree).encode())))
def test_any_file_is_read_without_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "slurm-memory.json"
    path.write_bytes(data)
    assert Cluster(path).phase() in ("running", "unknown", "gone", "ended")
    assert Cluster(path).phase(force=True) == "running"
    Cluster(path).memory.mine()

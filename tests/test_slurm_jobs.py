"""Jobs by squeue: one question, fields that nothing in a job can break."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.slurm.commands import Answer, Kind, Query, allowed
from prl.slurm.jobs import Job, JobsAnswer, query_jobs, read_squeue
from prl.slurm.states import JobState, parse_state
from slurm_answers import FIELDS, NOW, Recorded, failed, mark_of, squeue


def ask(*jobs: dict[str, str], ids: list[str] | None = None) -> JobsAnswer:
    return query_jobs(ids or ["4242"], Recorded(squeue=lambda query: squeue(query, *jobs)))


def test_every_field_of_a_running_job() -> None:
    (job,) = ask({}).jobs
    assert job == Job(
        id="4242",
        state=JobState("RUNNING", (), "RUNNING"),
        raw_id="4242",
        name="rl",
        user="ada",
        partition="gpu",
        node_list="n[01-02]",
        node_count=2,
        batch_host="n01",
        time_limit=86400,
        time_left=82800,
        submitted=NOW - 4000,
        start=NOW - 3600,
        end=NOW + 82800,
        work_dir="/home/ada/project",
        command="/out/run/rl.sbatch",
    )
    assert job.nodes == ("n01", "n02")


def test_one_call_for_all_and_only_what_is_allowed() -> None:
    queries: list[Query] = []

    def answer(query: Query) -> Answer:
        queries.append(query)
        return squeue(query)

    query_jobs(["1", "4244_3", "4250+1", "1"], answer)
    query_jobs(None, answer)
    assert [query.argv[3].partition("=")[0] for query in queries] == ["--jobs", "--user"]
    assert queries[0].argv[3] == "--jobs=1,4244_3,4250+1"
    assert all(allowed(query.argv) for query in queries)
    # The mark is drawn anew, so that no job can hold it.
    assert mark_of(queries[0]) != mark_of(queries[1])


@pytest.mark.parametrize("ids", [["1 2"], ["-u"], ["1,2"], [""], ["4244_[1-8]"], []])
def test_what_is_no_job_id_is_not_asked(ids: list[str]) -> None:
    with pytest.raises(ValueError, match="job"):
        query_jobs(ids, lambda query: pytest.fail("asked"))


def test_states_and_reasons_of_a_short_queue() -> None:
    rows = [
        {"i": "4242", "T": "RUNNING", "r": "None"},
        {"i": "4243", "T": "COMPLETING", "r": "None"},
        {"i": "4244_[1-8%2]", "F": "4244", "A": "4244", "K": "1-8%2", "T": "PENDING", "r": "Resources", "N": ""},
        {"i": "4245", "T": "PENDING", "r": "BeginTime", "N": "", "S": "N/A", "l": "UNLIMITED", "L": "UNLIMITED"},
        {"i": "4246", "T": "COMPLETININVALID"},
    ]
    answer = ask(*rows)
    assert [(job.id, str(job.state), job.reason) for job in answer.jobs] == [
        ("4242", "RUNNING", ""),
        ("4243", "COMPLETING", ""),
        ("4244_[1-8%2]", "PENDING", "Resources"),
        ("4245", "PENDING", "BeginTime"),
        ("4246", "unknown (COMPLETININVALID)", ""),
    ]
    array, late = answer.jobs[2], answer.jobs[3]
    assert (array.array_id, array.array_index, array.nodes) == ("4244", "1-8%2", ())
    assert answer.of("4244") == (array,)
    assert (late.start, late.time_limit) == (None, math.inf)


def test_texts_come_through_verbatim() -> None:
    hostile = {"j": "a|b\n4242|FAILED", "k": "x\x1b[2J\x1f<deadbeef>", "Z": "/w d/ü", "o": "/s.sh a  b\n"}
    (job,) = ask(hostile).jobs
    assert (job.name, job.comment, job.work_dir, job.command) == tuple(hostile[letter] for letter in "jkZo")
    assert ask({"j": "none"}).jobs[0].name == "none"


def test_job_that_slurm_does_not_have_is_absent() -> None:
    answer = query_jobs(["7"], lambda query: failed("squeue", Kind.UNKNOWN_JOB))
    assert (answer.jobs, answer.trouble, answer.damaged) == ((), None, 0)


def test_answer_cut_short_keeps_whole_jobs() -> None:
    def cut(query: Query) -> Answer:
        whole = squeue(query, {}, {"i": "4243"})
        return Answer(whole.text[:-40], failed("squeue", Kind.TOO_LONG).trouble, NOW)

    answer = query_jobs(["4242", "4243"], cut)
    assert [job.id for job in answer.jobs] == ["4242"]
    assert answer.damaged == 1
    assert answer.trouble is not None


def test_job_as_json_and_back() -> None:
    (job,) = ask({"T": "PENDING", "r": "Priority", "l": "UNLIMITED", "k": "über"}).jobs
    tree = json.loads(json.dumps(job.to_json(), allow_nan=False))
    assert tree["time_limit"] == "unlimited"
    assert Job.from_json(tree) == job
    for bad in ({}, {"id": 1, "state": "RUNNING"}, {"id": "1", "state": "RUNNING", "start": "soon"}):
        with pytest.raises(ValueError, match="job"):
            Job.from_json(bad)


def test_details_fill_what_is_missing() -> None:
    job = Job("1", parse_state("RUNNING"), name="rl")
    detailed = job.with_details(Job("1", parse_state("FAILED"), name="other", restarts=0, stdout="/out"))
    assert (detailed.state.base, detailed.name, detailed.restarts, detailed.stdout) == ("RUNNING", "rl", 0, "/out")


FIELD = st.text(max_size=12).filter(lambda text: "<m>" not in text)


@given(st.lists(st.fixed_dictionaries({letter: FIELD for letter in FIELDS if letter != "i"}), max_size=4))
def test_any_fields_give_a_job_each(rows: list[dict[str, str]]) -> None:
    text = "".join(
        "".join({**row, "i": str(n)}[letter] + "<m>" for letter in "iAFKjuPTrNDlLSeVZokB") + "\n"
        for n, row in enumerate(rows)
    )
    answer = read_squeue(Answer(text, None, NOW), "<m>")
    assert [job.id for job in answer.jobs] == [str(n) for n in range(len(rows))]
    assert [job.name for job in answer.jobs] == [row["j"] for row in rows]


@given(st.text(alphabet="<m>4|R\n"))
def test_any_output_is_read_without_an_error(text: str) -> None:
    read_squeue(Answer(text, None, NOW), "<m>")


@pytest.mark.parametrize(
    "text", ["squeue is disabled on this node, use sq\n", "\x00\xff|RUNNING|\n", "JOBID ST\n4242 R\n"]
)
def test_something_else_proves_no_absence(text: str) -> None:
    # A wrapper in the program's place, with exit status 0: that the job is not in it does not mean that it has ended.
    found = query_jobs(["4242"], lambda query: Answer(text, None, NOW))
    assert (found.jobs, found.trouble and found.trouble.kind) == ((), Kind.NOT_UNDERSTOOD)
    # Blank lines are an answer: there is no such job.
    assert query_jobs(["4242"], lambda query: Answer("\n", None, NOW)).trouble is None

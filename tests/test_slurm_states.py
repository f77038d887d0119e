"""States and reasons."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.slurm.states import BASES, JobState, explain, parse_state


@pytest.mark.parametrize(
    ("value", "base", "flags"),
    [
        # By version a string or a list, with flags or without.
        ("RUNNING", "RUNNING", ()),
        (["RUNNING"], "RUNNING", ()),
        (["RUNNING", "COMPLETING"], "RUNNING", ("COMPLETING",)),
        (["PREEMPTED", "COMPLETING"], "PREEMPTED", ("COMPLETING",)),
        (["PENDING", "REQUEUED"], "PENDING", ("REQUEUED",)),
        ("PENDING,REQUEUE_HOLD", "PENDING", ("REQUEUE_HOLD",)),
        # squeue's text form prints a flag in place of the base.
        ("COMPLETING", "ENDED", ("COMPLETING",)),
        ("CONFIGURING", "RUNNING", ("CONFIGURING",)),
        ("REQUEUE_HOLD", "PENDING", ("REQUEUE_HOLD",)),
        ("SPECIAL_EXIT", "PENDING", ("SPECIAL_EXIT",)),
        ("REVOKED", "CANCELLED", ("REVOKED",)),
        # Accounting adds who, or cuts.
        ("CANCELLED by 1234", "CANCELLED", ()),
        ("CANCELLED+", "CANCELLED", ()),
        ("OUT_OF_ME+", "OUT_OF_MEMORY", ()),
        ("PD", "PENDING", ()),
        ("CG", "ENDED", ("COMPLETING",)),
    ],
)
def test_known_states(value: object, base: str, flags: tuple[str, ...]) -> None:
    state = parse_state(value)
    assert (state.base, state.flags) == (base, flags)


@pytest.mark.parametrize("value", ["HIBERNATED", ["HIBERNATED"], "COMPLETININVALID", "RE+", "", None, 7, [None], {}])
def test_unknown_stays_as_it_was_read(value: object) -> None:
    state = parse_state(value)
    assert not state.known
    assert not state.terminal
    assert state.raw == (value if isinstance(value, str) else "HIBERNATED" if value == ["HIBERNATED"] else "")
    assert str(parse_state("COMPLETININVALID")) == "unknown (COMPLETININVALID)"


def test_terminal_is_what_cannot_go_on() -> None:
    terminal = {base for base in BASES if parse_state(base).terminal}
    assert terminal == {
        *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY")
    }
    # Preempted or requeued, SLURM still has it: it may run again.
    assert not parse_state(["FAILED", "REQUEUED"]).terminal
    assert not parse_state("PREEMPTED").terminal


def test_holding_nodes() -> None:
    holding = {
        text for text in ("RUNNING", "SUSPENDED", "COMPLETING", "PENDING", "FAILED") if parse_state(text).holds_nodes
    }
    assert holding == {"RUNNING", "SUSPENDED", "COMPLETING"}
    assert parse_state(["FAILED", "COMPLETING"]).holds_nodes
    assert parse_state("CONFIGURING").starting


@pytest.mark.parametrize(
    ("raw", "plain", "blocked"),
    [
        ("Priority", "jobs of higher priority are ahead of it", False),
        ("Resources", "first in line, waiting until enough nodes are free", False),
        ("BeginTime", "not to start before a set time; a requeued job waits so too", False),
        ("DependencyNeverSatisfied", "the job it depends on ended otherwise than asked; it can never start", True),
        ("JobHeldUser", "held by its user: scontrol release", True),
        ("BadConstraints", "no node fits what it asks for", True),
        ("QOSMaxGRESPerUser", "a limit of the QOS is reached (QOSMaxGRESPerUser)", False),
        (
            "QOSMaxWallDurationPerJobLimit",
            "it asks for more than the QOS allows one job (QOSMaxWallDurationPerJobLimit)",
            True,
        ),
        ("AssocGrpCpuLimit", "a limit of the account is reached (AssocGrpCpuLimit)", False),
        (
            "ReqNodeNotAvail, UnavailableNodes:n[3-4]",
            "a node that it asks for is down, drained or reserved (n[3-4])",
            False,
        ),
        (
            "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
            "a node that it needs is down, drained or reserved",
            False,
        ),
        ("launch_failed_requeued_held", "requeued after a failed launch, now held", True),
        ("job_requeued_in_held_state", "requeued after its end, now held", True),
        ("RaisedSignal:9(Killed)", "ended by a signal (9(Killed))", False),
        ("NewInThisVersion", "SLURM's reason: NewInThisVersion", False),
    ],
)
def test_reasons_in_plain_words(raw: str, plain: str, blocked: bool) -> None:
    found = explain(raw)
    assert found is not None
    assert (found.raw, found.plain, found.blocked) == (raw, plain, blocked)


def test_no_reason() -> None:
    assert [explain(raw) for raw in ("", "None", "(null)")] == [None] * 3


@given(st.one_of(st.text(), st.lists(st.one_of(st.text(), st.sampled_from(sorted(BASES)), st.integers()))))
def test_any_state_and_reason_is_read_without_an_error(value: object) -> None:
    state = parse_state(value)
    assert isinstance(state, JobState)
    assert str(state)
    # A state that was kept reads the same again.
    assert parse_state(state.raw).base == state.base or not state.known
    explain(str(value))

"""Known failures by their words."""

import json
import re
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.logs.catalogue import load_catalogue
from prl.rundir.logs.grams import LiteralFilter
from prl.rundir.logs.signatures import SEVERITIES, load_signatures
from prl.rundir.needles import required_literals

SIGNATURES = load_signatures()
RAW = json.loads(resources.files("prl.rundir.logs").joinpath("signatures.json").read_bytes())


@pytest.mark.parametrize("signature_id", SIGNATURES.by_id)
def test_every_signature_knows_its_example(signature_id: str) -> None:
    signature = SIGNATURES.by_id[signature_id]
    assert signature.severity in SEVERITIES
    assert signature_id in [match.signature.id for match in SIGNATURES.find(signature.example)]
    assert any(literal in signature.example for literal in signature.literals)


@pytest.mark.parametrize("signature_id", SIGNATURES.by_id)
def test_a_match_needs_one_of_the_literals(signature_id: str) -> None:
    """Else matches were missed: only lines that hold a literal are tried."""
    signature = SIGNATURES.by_id[signature_id]
    if signature_id == "env.trace_error":  # too many alternatives to be read off the expression
        kinds = re.search(r"\((?:\?P<\w+>)?([\w|]+)\)", signature.regex)
        assert kinds is not None
        assert [f"— {kind}: " for kind in kinds[1].split("|")] == list(signature.literals)
    else:
        assert required_literals(signature.regex) == (list(signature.literals), False)


@pytest.mark.parametrize("row", RAW["benign"], ids=lambda row: row["text"][:30])
def test_what_only_looks_like_a_failure_is_none(row: dict[str, str]) -> None:
    assert SIGNATURES.find(row["example"]) == []


def test_ordinary_lines_are_no_failures() -> None:
    usual = ("trainer_step", "orch_step", "pipeline", "vllm_stats", "eval_done", "env_pool_up", "orch_done")
    for pattern_id in usual:
        assert SIGNATURES.find(load_catalogue().patterns[pattern_id].example) == []


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", "fatal"),
        ("NVRM: Xid (PCI:0000:3b:00): 31, pid=1, MMU fault", "warn"),
        ("Dropping 1 non-finite value(s) from metrics.jsonl: loss/mean", "error"),
        ("Dropping 1 non-finite value(s) from metrics.jsonl: train/agg/reward/max", "warn"),
        ("Detected busy event loop. Measured 2.3s (min=0.0s, med=1.4s, p90=6.1s, max=119.0s)", "error"),
    ],
)
def test_a_lines_own_numbers_decide(line: str, severity: str) -> None:
    assert [match.severity for match in SIGNATURES.find(line)] == [severity]


def test_memory_of_the_host_is_not_memory_of_the_device() -> None:
    slurm = "slurmstepd: error: Detected 8 oom-kill event(s) in step 123.batch cgroup. Some of your processes"
    (host,) = SIGNATURES.find(slurm)
    assert (host.signature.fault, host.values) == ("host out of memory", {"n": "8", "job": "123", "step": "batch"})
    (device,) = SIGNATURES.find(SIGNATURES.by_id["cuda.oom"].example)
    assert device.signature.fault == "CUDA out of memory"
    (fault,) = SIGNATURES.find("RuntimeError: CUDA error: an illegal memory access was encountered")
    assert fault.signature.fault == "CUDA fault"


def test_messages_are_matched_behind_their_headers_and_colours() -> None:
    data = b"\x1b[2m10:00:00\x1b[0m \x1b[33mWARNING\x1b[0m Discarded 190/300 episodes\n1%\rEngineDeadError\r3%\n"
    first, second = SIGNATURES.scan(data, 100)
    assert (first.signature.id, first.offset) == ("prl.discard", 100)
    assert (second.signature.id, second.text) == ("vllm.engine_dead", "EngineDeadError")


@given(st.lists(st.sampled_from([b"abcd", b"wxyz12", b"ab", b"x", b"\n", b"abc", b"dwxyz1", b"2"]), max_size=30))
def test_literals_are_found_where_they_stand(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    literals = [b"abcd", b"bcdw", b"wxyz12", b"x\nab"]
    expected = sorted(
        (at, number)
        for number, literal in enumerate(literals)
        for at in range(len(data))
        if data.startswith(literal, at)
    )
    assert sorted(LiteralFilter(literals).find(data)) == expected


@given(st.binary(max_size=300))
def test_any_bytes_are_scanned(data: bytes) -> None:
    for match in SIGNATURES.scan(data + b" EngineDeadError\n" + data):
        assert 0 <= match.offset <= 2 * len(data) + 20

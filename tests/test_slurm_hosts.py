"""Host lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.slurm.hosts import MAX_HOSTS, expand


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[01-03,7],x1", "n01 n02 n03 n7 x1"),
        ("n1", "n1"),
        ("n[9-11]", "n9 n10 n11"),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("r[1-2]n[1-2]-ib", "r1n1-ib r1n2-ib r2n1-ib r2n2-ib"),
        ("a,b, c", "a b c"),
        *((text, "") for text in ("", "(null)", "None assigned", "N/A")),
        # What is not well formed stays as it stands and costs nothing beside it.
        ("n[1,x2", "n[1,x2"),
        ("n[3-1],x2", "n[3-1] x2"),
        ("n[a-b],x2", "n[a-b] x2"),
        ("n],x2", "n] x2"),
    ],
)
def test_expansion(text: str, hosts: str) -> None:
    assert expand(text) == tuple(hosts.split())


def test_a_list_is_bounded() -> None:
    assert len(expand(f"n[1-{MAX_HOSTS - 1}],x1,x2")) == MAX_HOSTS
    assert expand("n[1-999999999999]") == ("n[1-999999999999]",)
    assert len(expand(",".join(["n[1-60000]"] * 9))) == MAX_HOSTS
    # Brackets multiply: bounded together, not one by one.
    assert expand("a[1-999]b[1-999]c[1-999]") == ("a[1-999]b[1-999]c[1-999]",)


@given(st.text(alphabet="n[]-,019x ", max_size=30))
def test_any_text_is_expanded_without_an_error(text: str) -> None:
    assert all(host for host in expand(text, limit=1000))

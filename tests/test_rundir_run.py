"""A run as one object, in each of the contract's layouts."""

from typing import Any

import pytest

from prl.rundir.run import Run
from prl.synth import RunShape, write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    made = {}
    for layout in ("A", "B", "C"):
        shape: Any = {"layout": layout, "writer": "prl" if layout == "C" else "prime-rl"}
        path = tmp_path_factory.mktemp("outputs") / layout
        write_run(path, RunShape(steps=3, rollouts=8, answer_tokens=10, ranks=1, **shape))
        made[layout] = Run(path, cached=False)
    return made


@pytest.mark.parametrize("layout", ["A", "B", "C"])
def test_every_episode_of_a_list_opens_by_each_of_its_names(runs: dict[str, Run], layout: str) -> None:
    run = runs[layout]
    looked_up = Run(run.path, cached=False)  # which never had a table
    assert run.info.layout == layout
    rows = run.episodes.page(limit=100).rows
    assert len(rows) == run.episodes.count == 24
    for row in rows:
        for name in (row["id"], row["id"][:12], row["trace_ids"][0], str(row["line"])):
            for detail in (run.episode(name), looked_up.episode(name)):
                assert (detail.record.get("id"), detail.step) == (row["id"], row["ship_step"])


@pytest.mark.parametrize("layout", ["A", "B", "C"])
def test_what_a_search_finds_is_in_the_list(runs: dict[str, Run], layout: str) -> None:
    run = runs[layout]
    hits = run.search("e", limit=20).hits
    assert hits
    for hit in hits:
        row = run.episodes.place_row(hit.chunk, hit.offset)
        assert row is not None
        assert row["id"] == hit.episode_id


@pytest.mark.parametrize("layout", ["A", "B", "C"])
def test_metrics_lie_where_the_layout_has_them(runs: dict[str, Run], layout: str) -> None:
    assert runs[layout].metrics.last_step("trainer") == runs[layout].info.step

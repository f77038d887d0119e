"""Cached columns come back as they were, and anything that is not a whole cache file is none."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prl.rundir import cache
from prl.rundir.following import Mark


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))


def test_columns_come_back_as_they_were(tmp_path: Path) -> None:
    path = cache.cache_path(tmp_path / "metrics.jsonl", "test-1")
    columns = {
        "values": np.array([1.5, np.nan, -np.inf]),
        "matrix": np.arange(6, dtype=np.int32).reshape(2, 3),
        "names": np.array([b"a", b"longer"]),
        "none": np.empty(0, np.uint8),
    }
    assert cache.save(path, {"rows": 3, "name": "ü"}, columns)
    cached = cache.load(path)
    assert cached is not None and cached.meta == {"rows": 3, "name": "ü"}
    for name, column in columns.items():
        np.testing.assert_array_equal(cached.columns[name], column)
        assert cached.columns[name].dtype == column.dtype
    with pytest.raises(ValueError):
        cached.columns["values"][0] = 2.0


@settings(max_examples=60)
@given(cut=st.integers(0, 400), junk=st.binary(max_size=40))
def test_a_cache_that_is_not_whole_is_none(cut: int, junk: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("cache") / "kind" / "a.columns"
    assert cache.save(path, {"a": 1}, {"x": np.arange(5)})
    whole = path.read_bytes()
    path.write_bytes(whole[: min(cut, len(whole) - 1)] + junk)
    if path.read_bytes() != whole:
        assert cache.load(path) is None


@pytest.mark.parametrize("length", [1, 4096])
@pytest.mark.parametrize("place", [0.01, 0.3, 0.7, 0.999])
def test_bytes_that_a_disk_lost_make_a_cache_none(tmp_path: Path, place: float, length: int) -> None:
    path = cache.cache_path(tmp_path, "test-1")
    cache.save(path, {}, {"x": (np.arange(1, 100_001), np.arange(3)), "y": np.arange(1, 70_000, dtype=np.int32)})
    assert cache.load(path) is not None
    whole = path.read_bytes()
    at = int(place * len(whole))
    path.write_bytes(whole[:at] + (bytes(length) if length > 1 else bytes([whole[at] ^ 4])) + whole[at + length :])
    assert cache.load(path) is None


def test_blocks_in_each_others_place_make_a_cache_none(tmp_path: Path) -> None:
    path = cache.cache_path(tmp_path, "test-1")
    cache.save(path, {}, {"x": np.arange(500_000)})
    whole = path.read_bytes()
    half = len(whole) // 2
    block = 600_000
    path.write_bytes(
        whole[:1000]
        + whole[half : half + block]
        + whole[1000 + block : half]
        + whole[1000 : 1000 + block]
        + whole[half + block :]
    )
    assert len(path.read_bytes()) == len(whole) and cache.load(path) is None


def test_unwritable_cache_costs_nothing_but_the_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    assert not cache.save(cache.cache_path(tmp_path, "test-1"), {}, {})
    assert cache.load(cache.cache_path(tmp_path, "test-1")) is None


def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    paths = [cache.cache_path(tmp_path / str(i), "test-1") for i in range(3)]
    for path in paths:
        cache.save(path, {}, {"x": np.zeros(100)})
    size = paths[0].stat().st_size
    import os

    for age, path in enumerate(paths):
        os.utime(path, (1000 - age, 1000 - age))
    cache.prune(max_bytes=2 * size)
    assert [path.exists() for path in paths] == [True, True, False]


def test_mark_survives_the_way_through_json() -> None:
    mark = Mark(12, 34, b"\x00\xff before")
    assert cache.mark_from_json(cache.mark_to_json(mark)) == mark
    for wrong in (None, {}, {"inode": 1, "offset": -1, "before": ""}, {"inode": 1, "offset": 1, "before": "zz"}):
        assert cache.mark_from_json(wrong) is None


def test_a_column_in_parts_is_one_column(tmp_path: Path) -> None:
    path = cache.cache_path(tmp_path, "test-1")
    assert cache.save(
        path, {}, {"x": (np.arange(3), np.arange(3, 5)), "y": (np.empty(0, np.int8), np.ones(1, np.int8))}
    )
    cached = cache.load(path)
    assert cached is not None
    np.testing.assert_array_equal(cached.columns["x"], np.arange(5))
    np.testing.assert_array_equal(cached.columns["y"], np.ones(1, np.int8))

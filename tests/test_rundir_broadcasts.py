"""A weight directory is loaded only when it is what its manifest says."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from prl.rundir import broadcasts
from prl.rundir.broadcasts import WeightDirectoryError, list_broadcasts, verify_weights, write_manifest


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "step_4"
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"weights" * 100)
    (path / broadcasts.SENDER_READY).touch()
    write_manifest(path, 4)
    return path


def test_a_whole_directory_is_accepted(weights: Path) -> None:
    assert verify_weights(weights) == 4
    assert verify_weights(weights, 4) == 4
    assert broadcasts.SENDER_READY not in json.loads((weights / broadcasts.MANIFEST).read_text())["files"]


def truncate(path: Path) -> None:
    (path / "model.safetensors").write_bytes(b"weights")


def flip(path: Path) -> None:
    data = bytearray((path / "model.safetensors").read_bytes())
    data[50] ^= 1
    (path / "model.safetensors").write_bytes(data)


def escape(path: Path) -> None:
    entry = {"../model.safetensors": {"bytes": 1, "sha256": "0"}}
    (path / broadcasts.MANIFEST).write_text(json.dumps({"version": 4, "files": entry}))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (truncate, "bytes"),
        (flip, "checksum"),
        (escape, "outside"),
        (lambda p: (p / "model.safetensors").unlink(), "No such file"),
        (lambda p: (p / broadcasts.MANIFEST).write_text("{"), "not a readable manifest"),
        (lambda p: (p / broadcasts.MANIFEST).unlink(), "not a readable manifest"),
        (lambda p: (p / broadcasts.MANIFEST).write_text('{"version": 4, "files": {}}'), "no safetensors"),
    ],
)
def test_a_spoiled_directory_is_refused_with_the_reason(
    weights: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    spoil(weights)
    with pytest.raises(WeightDirectoryError, match=reason):
        verify_weights(weights, 4)


def test_another_version_and_an_absent_directory_are_refused(weights: Path) -> None:
    with pytest.raises(WeightDirectoryError, match="holds version 4, not 5"):
        verify_weights(weights, 5)
    with pytest.raises(WeightDirectoryError, match="no such directory"):
        verify_weights(weights.with_name("step_9"))


def test_listing_reads_markers_and_ignores_strangers(weights: Path) -> None:
    (weights.parent / "step_4.tmp").mkdir()
    (weights.parent / "notes").touch()
    (state,) = list_broadcasts(weights.parent)
    assert state.version == 4
    assert state.sender_ready is not None
    assert state.finished is None
    assert list_broadcasts(weights.parent / "absent") == []

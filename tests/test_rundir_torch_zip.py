"""Plain values in torch's container: torch reads what is written here, and the other way round."""

import contextlib
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prl.rundir.torch_zip import TorchFileError, load_plain, save_plain

scalars = st.none() | st.booleans() | st.integers(-(2**140), 2**140) | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(value=values)
@settings(max_examples=60, deadline=None)
def test_torch_reads_what_is_written_without_torch(value: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("torch") / "value.pt"
    save_plain(path, value)
    assert torch.load(path, weights_only=True) == value
    assert load_plain(path) == value


def test_what_torch_saves_of_plain_values_is_read_without_torch(tmp_path: Path) -> None:
    value = {"progress": {"step": 3, "total_tokens": 2**40}, "ratios": [0.5, None, True, "ä"], "span": (1, 2)}
    torch.save(value, tmp_path / "value.pt")
    assert load_plain(tmp_path / "value.pt") == value


def test_a_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("executed",)

    path = tmp_path / "evil.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Payload()))
    with pytest.raises(TorchFileError, match="print"):
        load_plain(path)


def test_tensors_and_other_types_are_refused(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(2)}, tmp_path / "tensor.pt")
    with pytest.raises(TorchFileError, match="plain values"):
        load_plain(tmp_path / "tensor.pt")
    with pytest.raises(TypeError, match="set is not a plain value"):
        save_plain(tmp_path / "set.pt", {"a": {1, 2}})
    assert not (tmp_path / "set.pt").exists()


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut short"])
def test_damaged_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "progress.pt"
    path.write_bytes(content)
    with pytest.raises(TorchFileError, match=r"progress\.pt"):
        load_plain(path)


@given(st.binary(max_size=40))
def test_no_pickle_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    with contextlib.suppress(TorchFileError):
        load_plain(path)

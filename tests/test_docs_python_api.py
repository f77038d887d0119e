"""The worked examples of docs/python-api.md run, in order, on a sample run."""

import re
from pathlib import Path

import pytest

from prl.synth import RunShape, write_run

PAGE = Path(__file__).parent.parent / "docs" / "python-api.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "outputs" / "demo", RunShape(steps=24))
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
    assert len(examples) > 8
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)

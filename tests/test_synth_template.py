import json

import pytest

from prl.synth.template import Template, hole, text_hole


def test_values_and_text_go_into_their_holes_in_order() -> None:
    template = Template({"a": hole("a"), "b": f"x{text_hole('b')}y", "c": [hole("c"), None]})
    assert json.loads(template.fill(b"[1]", b'\\"', b"2")) == {"a": [1], "b": 'x"y', "c": [2, None]}


def test_too_few_values_are_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        Template({"a": hole("a")}).fill()

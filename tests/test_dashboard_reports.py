"""Reports as plain blocks, and their citations checked against the traces."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.dashboard.citations import Citation, check_all, parse
from prl.dashboard.markdown import blocks_of, take_notes, without_front_matter

PAGE = "http://localhost:7788/"


def plain(text: str, style: list[str] | None = None) -> dict[str, Any]:
    return {"text": text, "style": style or []}


def test_every_kind_of_block() -> None:
    text = """# Why it fell

Some *words*, **strong**, `code`, ~~gone~~
and a [link](https://example.org/x?y=1).

- one
- two
  1. inner

> said

```py
x = "<b>"
```

| a | b |
| :- | -: |
| 1 | **2** |

---
"""
    blocks = blocks_of(text)
    assert [block["type"] for block in blocks] == ["heading", "paragraph", "list", "quote", "code", "table", "rule"]
    assert blocks[0] == {"type": "heading", "level": 1, "spans": [plain("Why it fell")]}
    spans = blocks[1]["spans"]
    assert {"text": "words", "style": ["em"]} in spans and {"text": "code", "style": ["code"]} in spans
    assert {"text": "strong", "style": ["strong"]} in spans and {"text": "gone", "style": ["strike"]} in spans
    assert {"text": "link", "style": [], "href": "https://example.org/x?y=1"} in spans
    assert blocks[2]["ordered"] is False and len(blocks[2]["items"]) == 2
    inner = blocks[2]["items"][1][1]
    assert (inner["type"], inner["ordered"], inner["start"]) == ("list", True, 1)
    assert blocks[3]["blocks"][0]["spans"] == [plain("said")]
    assert blocks[4] == {"type": "code", "language": "py", "text": 'x = "<b>"\n'}
    assert blocks[5]["align"] == ["left", "right"]
    assert blocks[5]["head"] == [[plain("a")], [plain("b")]]
    assert blocks[5]["rows"] == [[[plain("1")], [plain("2", ["strong"])]]]


def test_html_is_text() -> None:
    blocks = blocks_of("<script>alert(1)</script>\n\nand <img src=x onerror=alert(1)> here")
    assert blocks[0]["spans"] == [plain("<script>alert(1)</script>")]
    assert "".join(span["text"] for span in blocks[1]["spans"]) == "and <img src=x onerror=alert(1)> here"


@pytest.mark.parametrize(
    ("target", "href"),
    [
        ("https://example.org", "https://example.org"),
        ("http://localhost:1/x", "http://localhost:1/x"),
        ("other.md", "other.md"),
        ("?page=logs", "?page=logs"),
        ("#part", "#part"),
        ("javascript:alert(1)", None),
        ("JavaScript:alert(1)", None),
        ("data:text/html,x", None),
        ("vbscript:x", None),
        ("file:///etc/passwd", None),
        ("//evil.example/x", None),
        ("java&#10;script:alert(1)", None),
    ],
)
def test_only_links_of_the_web_or_beside_the_page(target: str, href: str | None) -> None:
    spans = blocks_of(f"[x]({target})")[0]["spans"]
    assert spans[0].get("href") == href or (href is None and all("href" not in span for span in spans))


@given(st.text(alphabet="/\\:@.?#&;ahtpsjvcrie10xX \t", max_size=20))
def test_no_other_link_leaves_the_server(target: str) -> None:
    for span in blocks_of(f"[x](<{target}>)")[0]["spans"]:
        href = span.get("href", "")
        assert href.lower().startswith(("http:", "https:")) or urljoin(PAGE, href).startswith(PAGE)


def test_an_image_is_a_link_and_never_asked_for() -> None:
    assert blocks_of("![shot](https://example.org/a.png)")[0]["spans"] == [
        {"text": "shot", "style": [], "href": "https://example.org/a.png"}
    ]


def test_front_matter_is_left_out() -> None:
    assert without_front_matter("---\ntitle: x\n---\nbody") == "body"
    assert without_front_matter("---\nno end") == "---\nno end"
    assert without_front_matter("a\n---\nb\n---\n") == "a\n---\nb\n---\n"


def test_footnotes_are_taken_out_and_references_are_spans() -> None:
    text = 'It looped[^1], see [^none].\n\n[^1]: {"episode": "e1",\n    "quote": "again"}\n[^words]: just words\n'
    body, notes = take_notes(text)
    assert json.loads(notes["1"]) == {"episode": "e1", "quote": "again"} and notes["words"] == "just words"
    spans = blocks_of(body, list(notes))[0]["spans"]
    assert spans == [plain("It looped"), {**plain("1"), "cite": "1"}, plain(", see [^none].")]
    citations, others = parse(notes)
    assert [citation.id for citation in citations] == ["1"] and others == {"words": "just words"}


def test_what_a_citation_says_of_the_wrong_kind_says_nothing() -> None:
    citations, _ = parse({"a": '{"episode": 3, "quote": ["x"], "step": "7"}', "b": "[1]", "c": "{", "d": "null"})
    assert citations == [Citation("a", None, None)]


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_any_text_is_a_report(text: str) -> None:
    body, notes = take_notes(without_front_matter(text))
    json.dumps(blocks_of(body, list(notes)))
    parse(notes)


@given(
    st.lists(
        st.sampled_from(["> ", "- ", "1. ", "#", "`", "|", "*", "_", "[", "](", ")", "[^1]", "\n", " ", "a"]),
        max_size=80,
    )
)
def test_any_markup_is_a_report(parts: list[str]) -> None:
    text = "".join(parts)
    body, notes = take_notes(text)
    for block in blocks_of(body, list(notes)):
        assert block["type"]


class Episode:
    def __init__(self, *contents: str) -> None:
        nodes = [{"message": {"role": "assistant", "content": text}} for text in contents]
        self.record = {"id": "e1", "traces": [{"id": "t1", "nodes": nodes}]}


def opened(episode: str) -> Any:
    if episode == "gone":
        raise LookupError("no such")
    if episode == "torn":
        raise OSError(5, "Input/output error", "stream/00000.jsonl")
    return Episode("First I  try\nthe door.", "It is locked. It is locked.")


@pytest.mark.parametrize(
    ("fields", "found", "node"),
    [
        ({"quote": "I try the door"}, True, 0),
        ({"quote": "Itry  the\tdoor ."}, True, 0),
        ({"quote": "It is locked.", "prefix": "locked. "}, True, 1),
        ({"quote": "I try the window"}, False, None),
        ({"quote": ""}, False, None),
        ({"episode": "gone", "quote": "x"}, False, None),
        ({"episode": "torn", "quote": "x"}, None, None),
        ({"episode": None, "quote": "x"}, False, None),
    ],
)
def test_quotes_are_checked(fields: dict[str, Any], found: bool | None, node: int | None) -> None:
    citation = Citation(**{"id": "1", "episode": "e1", "quote": None, **fields})
    told = check_all([citation], opened)[0]
    assert told["found"] is found and (found is True or told["reason"])
    if found:
        assert told["link"]["page"] == "traces" and told["link"]["params"]["node"] == str(node)
        assert told["link"]["params"]["trace"] == "t1"


def test_a_quote_elsewhere_than_said_is_found_with_a_remark() -> None:
    citation = Citation("1", "e1", "It is locked.", prefix="the window. ")
    told = check_all([citation], opened)[0]
    assert told["found"] is True and "between" in told["reason"]


def test_an_episode_is_opened_once() -> None:
    asked: list[str] = []

    def counted(episode: str) -> Any:
        asked.append(episode)
        return opened(episode)

    check_all([Citation(str(number), "e1", "door") for number in range(5)], counted)
    assert asked == ["e1"]


def test_a_citation_that_could_not_be_read_says_where(tmp_path: Path) -> None:
    told = check_all([Citation("1", "torn", "x")], opened)[0]
    assert "Input/output error" in told["reason"]

"""A report's markdown as plain blocks of text: the page draws them as text nodes, and no HTML ever comes of it.

Blocks: ``heading`` (``level``), ``paragraph``, ``code`` (``language``, ``text``), ``list`` (``ordered``, ``start``,
``items``: blocks each), ``quote`` (``blocks``), ``table`` (``align``, ``head``, ``rows``: spans a cell) and ``rule``.
Spans: ``text``, ``style`` (``strong``, ``em``, ``code``, ``strike``), ``href`` (http, https or relative), ``cite`` (the
id of a footnote). HTML in a report is text. Left out: images, which would be asked for from elsewhere; their text
stays, as a link.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

Block = dict[str, Any]
Span = dict[str, Any]

MAX_BLOCKS = 5000
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:.*\n)*?---[ \t]*(?:\n|\Z)")
_NOTE = re.compile(r"^ {0,3}\[\^([^\]\s]{1,100})\]:[ \t]*(.*(?:\n(?:[ \t]+\S.*|[ \t]*(?=\n[ \t]+\S)))*)", re.M)
_REFERENCE = re.compile(r"\[\^([^\]\s]{1,100})\]")
_STYLES = {"strong": "strong", "em": "em", "s": "strike"}
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
_PATH_BEGINS = re.compile(r"[/?#]")


def without_front_matter(text: str) -> str:
    return _FRONT_MATTER.sub("", text, count=1)


def take_notes(text: str) -> tuple[str, dict[str, str]]:
    """The text without its footnotes, and these by id; of several with one id the first."""
    notes: dict[str, str] = {}
    for found in _NOTE.finditer(text):
        notes.setdefault(found[1], found[2].strip())
    return _NOTE.sub("", text), notes


def blocks_of(text: str, notes: Sequence[str] = ()) -> list[Block]:
    """The blocks of a markdown text. ``notes``: ids of the footnotes that a span may cite."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    tree = SyntaxTreeNode(parser.parse(text))
    return _Reader(frozenset(notes)).blocks(tree.children)


class _Reader:
    def __init__(self, notes: frozenset[str]) -> None:
        self._notes = notes
        self._left = MAX_BLOCKS

    def blocks(self, nodes: "Sequence[SyntaxTreeNode]") -> list[Block]:
        found = []
        for node in nodes:
            if self._left <= 0:
                break
            self._left -= 1
            block = self._block(node)
            if block is not None:
                found.append(block)
        return found

    def _block(self, node: "SyntaxTreeNode") -> Block | None:
        match node.type:
            case "heading":
                return {"type": "heading", "level": int(node.tag[1]), "spans": self._inline(node)}
            case "paragraph":
                return {"type": "paragraph", "spans": self._inline(node)}
            case "fence" | "code_block":
                language = node.info.split()[0] if node.info.split() else None
                return {"type": "code", "language": language, "text": node.content}
            case "bullet_list" | "ordered_list":
                ordered = node.type == "ordered_list"
                start = node.attrs.get("start", 1) if ordered else None
                items = [self.blocks(item.children) for item in node.children]
                return {"type": "list", "ordered": ordered, "start": start, "items": items}
            case "blockquote":
                return {"type": "quote", "blocks": self.blocks(node.children)}
            case "table":
                return self._table(node)
            case "hr":
                return {"type": "rule"}
        return None

    def _table(self, node: "SyntaxTreeNode") -> Block:
        rows = [row for part in node.children for row in part.children]
        cells = [[self._inline(cell) for cell in row.children] for row in rows]
        align = [_alignment(cell) for cell in rows[0].children] if rows else []
        return {"type": "table", "align": align, "head": cells[0] if cells else [], "rows": cells[1:]}

    def _inline(self, node: "SyntaxTreeNode") -> list[Span]:
        return [span for inline in node.children for child in inline.children for span in self._spans(child, (), None)]

    def _spans(self, node: "SyntaxTreeNode", style: tuple[str, ...], href: str | None) -> Iterator[Span]:
        match node.type:
            case "text":
                yield from self._text(node.content, style, href)
            case "softbreak":
                yield _span(" ", style, href)
            case "hardbreak":
                yield _span("\n", style, href)
            case "code_inline":
                yield _span(node.content, (*style, "code"), href)
            case "image":
                source = _safe_href(str(node.attrs.get("src", "")))
                yield _span(node.content or source or "image", style, href or source)
            case "link":
                target = _safe_href(str(node.attrs.get("href", "")))
                for child in node.children:
                    yield from self._spans(child, style, target)
            case _:
                inner = (*style, _STYLES[node.type]) if node.type in _STYLES else style
                for child in node.children:
                    yield from self._spans(child, inner, href)

    def _text(self, text: str, style: tuple[str, ...], href: str | None) -> Iterator[Span]:
        """Text with its references to footnotes as spans of their own."""
        end = 0
        for found in _REFERENCE.finditer(text):
            if found[1] in self._notes:
                if found.start() > end:
                    yield _span(text[end : found.start()], style, href)
                yield {"text": found[1], "style": list(style), "cite": found[1]}
                end = found.end()
        if end < len(text):
            yield _span(text[end:], style, href)


def _span(text: str, style: tuple[str, ...], href: str | None) -> Span:
    span: Span = {"text": text, "style": list(style)}
    return span if href is None else {**span, "href": href}


def _alignment(cell: "SyntaxTreeNode") -> str | None:
    _, _, side = str(cell.attrs.get("style", "")).partition("text-align:")
    return side or None


def _safe_href(href: str) -> str | None:
    """A link that leads to a page of the web or to a place beside this one; None for any other."""
    if not href or _UNSAFE.search(href) or href.startswith("//"):
        return None
    before, colon, _ = _PATH_BEGINS.split(href, maxsplit=1)[0].partition(":")
    return href if not colon or before.lower() in ("http", "https") else None

"""Text in columns, for people."""

from collections.abc import Sequence

from prl.watch.outward import safe


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Lines of columns two spaces apart, by the cells that a terminal gives each text. Text is made harmless."""
    from rich.cells import cell_len

    shown = [[safe(cell) for cell in cells] for cells in table]
    widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in shown
    ]

"""Points in sorted pieces: whatever the pieces, a series is its points in the order of their rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prl.rundir.metrics import segments
from prl.rundir.metrics.segments import Panel, Segment, SegmentStack

ROWS = st.lists(st.frozensets(st.integers(0, 6), min_size=1), min_size=1, max_size=40)


def panels(rows: list[frozenset[int]], first: int) -> list[Panel]:
    """A panel for each set of series, the value of a point made of its row and its series."""
    numbers: dict[frozenset[int], list[int]] = {}
    for row, series in enumerate(rows, first):
        numbers.setdefault(series, []).append(row)
    return [
        Panel(
            np.array(sorted(series), np.int32),
            np.array(found, np.int32),
            np.array([[100.0 * row + one for one in sorted(series)] for row in found]),
        )
        for series, found in numbers.items()
    ]


@given(rows=ROWS, size=st.integers(1, 9), fan_in=st.integers(2, 5), first=st.sampled_from([0, 70_000]))
def test_points_come_back_by_series_and_by_row(rows: list[frozenset[int]], size: int, fan_in: int, first: int) -> None:
    stack = SegmentStack()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "FAN_IN", fan_in)
        for start in range(0, len(rows), size):
            stack.add(Segment.of(panels(rows[start : start + size], first + start)))
    assert stack.points == sum(map(len, rows))
    for series in range(8):
        found, values = stack.find(series)
        wanted = [row for row, present in enumerate(rows, first) if series in present]
        assert found.tolist() == wanted
        assert values.tolist() == [100.0 * row + series for row in wanted]
    middle = first + len(rows) // 2
    assert sorted(stack.row_points(middle, middle + 2)) == [
        (row, series, 100.0 * row + series)
        for row in range(middle, min(middle + 3, first + len(rows)))
        for series in sorted(rows[row - first])
    ]


def test_there_are_few_segments_however_many_were_added() -> None:
    stack = SegmentStack()
    for row in range(5000):
        stack.add(Segment.of(panels([frozenset({0, 1})], row)))
    assert len(stack.segments) < 4 * segments.FAN_IN
    assert stack.find(1)[0].tolist() == list(range(5000))

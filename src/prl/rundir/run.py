"""One run directory as an object: ``prl.open_run(path)``.

A thin front of the readers of this package, each of which can be used alone. Nothing is read before it is asked for;
what is read is kept in the object (and, where it took long, in the user's cache), and :meth:`Run.refresh` reads on.
Left out: judging how the run does, which is :mod:`prl.watch`. One thread at a time may use a ``Run``.
"""

import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prl.rundir.discovery import find_run
from prl.rundir.layout import RunLayout
from prl.rundir.locate import metrics_path, traces_path

if TYPE_CHECKING:
    from prl.rundir.annotations.locator import UpdateLocator
    from prl.rundir.batches import StoredBatch
    from prl.rundir.broadcasts import BroadcastState
    from prl.rundir.checkpoint_states import Checkpoints
    from prl.rundir.configs import AttemptConfigs, Change
    from prl.rundir.episodes.detail import EpisodeDetail
    from prl.rundir.episodes.search import SearchPage
    from prl.rundir.episodes.table import EpisodeTable
    from prl.rundir.evaluations import Evaluations
    from prl.rundir.jobs import RunJobs
    from prl.rundir.live.rows import LiveRow, LiveTraces
    from prl.rundir.logs.merge import RunLogs
    from prl.rundir.logs.search import LogHits
    from prl.rundir.metrics.queries import SeriesData
    from prl.rundir.metrics.store import MetricsStore
    from prl.rundir.reports import Report
    from prl.rundir.runs import RunInfo
    from prl.rundir.status import LauncherStatus


class Run:
    """A run directory, live or finished, in any of the contract's layouts. Nothing in it is changed."""

    def __init__(self, path: Path, *, cached: bool = True) -> None:
        """``path``: the run directory. ``cached``: whether the user's cache is read and written."""
        self.path = path
        self.cached = cached
        self._layout = RunLayout(path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def info(self) -> "RunInfo":
        """Kind, layout, attempts, model, environments, steps: as the files are now."""
        from prl.rundir.runs import read_run

        return read_run(self.path)

    def refresh(self) -> None:
        """Read what was added to the metrics and the episodes since they were first asked for."""
        if "metrics" in self.__dict__:
            self.metrics.refresh()
        if "episodes" in self.__dict__:
            self.episodes.refresh()

    # ---- metrics

    @cached_property
    def metrics(self) -> "MetricsStore":
        """All series, read to the end of the file."""
        from prl.rundir.metrics.store import MetricsStore

        store = MetricsStore(metrics_path(self.path), cached=self.cached)
        store.refresh()
        return store

    def series(
        self,
        metric: str,
        *,
        producer: str | None = None,
        axis: Literal["step", "time"] = "step",
        start: float | None = None,
        end: float | None = None,
        points: int | None = None,
    ) -> "SeriesData":
        """One series by its key, or by what it means (``reward``, ``loss``, ``entropy`` ...).

        The rest as in :meth:`MetricsStore.series`. Raises KeyError: no such series, or one of several producers or
        environments without ``producer``; the message names them.
        """
        from prl.rundir.metrics.names import resolve

        found = [name for name in resolve(metric, self.metrics.names()) if producer in (None, name[0])]
        if len(found) != 1:
            raise KeyError(_which(metric, found))
        return self.metrics.series(*found[0], axis=axis, start=start, end=end, points=points)

    # ---- episodes

    @property
    def traces(self) -> Path:
        """Where the episodes lie: ``monitors/file/traces``, in the oldest layout the run directory itself."""
        return traces_path(self.path)

    @cached_property
    def episodes(self) -> "EpisodeTable":
        """All episodes as a table, read to its end."""
        from prl.rundir.episodes.table import EpisodeTable

        table = EpisodeTable(self.traces, cached=self.cached)
        table.refresh()
        return table

    def episode(self, wanted: str) -> "EpisodeDetail":
        """One episode by its id, a unique beginning of it, the id of a trace, or its line in the stream.

        Raises LookupError when there is none or are several, OSError when its record cannot be read.
        """
        from prl.rundir.episodes.detail import open_episode

        row = self.episodes.row(wanted) if "episodes" in self.__dict__ else None
        return open_episode(self.traces, row or wanted, locator=self._locator)

    def search(
        self,
        text: str,
        *,
        regex: bool = False,
        ignore_case: bool = True,
        limit: int = 100,
        cursor: str | None = None,
        max_bytes: int | None = None,
    ) -> "SearchPage":
        """What models, environments and tasks wrote, searched for a text, the newest episodes first.

        ``cursor`` of a page goes on behind it. Raises ValueError: no regular expression, or no cursor.
        """
        from prl.rundir.episodes.search import search_episodes
        from prl.rundir.search import Query

        query = Query(text, regex=regex, ignore_case=ignore_case)
        return search_episodes(self.traces, query, cursor=cursor, max_hits=limit, max_bytes=max_bytes)

    def live(self) -> "list[LiveRow]":
        """Rollouts in flight at this moment."""
        return self._live.refresh()

    # ---- logs

    def logs(self, attempt: int | None = None) -> "RunLogs":
        """The logs of an attempt (default: the newest), merged by time."""
        from prl.rundir.logs.merge import RunLogs

        return RunLogs(self.path, attempt)

    def search_logs(
        self,
        text: str,
        *,
        regex: bool = False,
        ignore_case: bool = True,
        components: Sequence[str] = (),
        attempt: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> "LogHits":
        """Whole log files of an attempt searched for a text. Raises ValueError as :meth:`search`."""
        from prl.rundir.logs.search import search_logs
        from prl.rundir.search import Query

        files = [file.path for file in self.logs(attempt).files(components)]
        query = Query(text, regex=regex, ignore_case=ignore_case)
        return search_logs(files, query, cursor=cursor, max_hits=limit)

    # ---- the rest of the directory

    def configs(self, attempt: int | None = None) -> "AttemptConfigs":
        """What an attempt (default: the newest) was given: command, files, resolved documents, surroundings."""
        from prl.rundir.configs import read_configs

        return read_configs(self.path, attempt)

    def config_changes(self, before: int, after: int) -> "list[Change]":
        """What differs between the resolved configurations of two attempts."""
        from prl.rundir.configs import diff

        return diff(self.configs(before), self.configs(after))

    def launcher(self) -> "LauncherStatus | None":
        """The launcher's last word: phase, processes, ports. None where there is none that can be read."""
        from prl.rundir.status import read_status

        return read_status(self._layout.status_json)

    def checkpoints(self) -> "Checkpoints":
        """Checkpoints with their states, sizes and ages."""
        from prl.rundir.checkpoint_states import read_checkpoints

        return read_checkpoints(self.path, self.configs().documents, time.time())

    def broadcasts(self) -> "list[BroadcastState]":
        """Weights on their way to the engines, with the times of their markers."""
        from prl.rundir.broadcasts import list_broadcasts

        return list_broadcasts(self._layout.broadcasts)

    def batches(self) -> "list[StoredBatch]":
        """Batches on the disk, where the run exchanges them by files."""
        from prl.rundir.batches import list_batches

        return list_batches(self.path)

    def evaluations(self) -> "Evaluations":
        """Plans of evaluations, earlier attempts of one, and links to where they were published."""
        from prl.rundir.evaluations import read_evaluations

        return read_evaluations(self.path)

    def jobs(self) -> "RunJobs":
        """The launcher's run id and the SLURM jobs that the directory tells of."""
        from prl.rundir.jobs import read_jobs

        return read_jobs(self.path)

    def reports(self) -> "list[Report]":
        """What people and agents wrote about the run below ``reports/``."""
        from prl.rundir.reports import list_reports

        return list_reports(self.path)

    @cached_property
    def _locator(self) -> "UpdateLocator":
        from prl.rundir.annotations.locator import UpdateLocator

        return UpdateLocator(self.traces)

    @cached_property
    def _live(self) -> "LiveTraces":
        from prl.rundir.live.rows import LiveTraces

        return LiveTraces(self.traces)


def open_run(target: str | Path | None = None, *, output_dir: str | Path | None = None, cached: bool = True) -> Run:
    """The run that ``target`` means: a directory, an id, a name, a unique beginning of one; None: the newest.

    Names are looked for below ``output_dir`` (default: ``$PRL_OUTPUT_DIR``, else ``outputs``). Raises
    RunNotFoundError, a LookupError, which says what there is.
    """
    wanted = None if target is None else str(target)
    return Run(find_run(wanted, None if output_dir is None else Path(output_dir)), cached=cached)


def _which(metric: str, found: list[tuple[str, str]]) -> str:
    if not found:
        return f"no series {metric!r}: metrics.names() lists them"
    named = ", ".join(f"{key!r} of {producer!r}" for producer, key in found)
    return f"{metric!r} is one of {len(found)} series: {named}"

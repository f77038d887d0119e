"""A stream of JSON lines in numbered chunks: ``NNNNN.jsonl`` while it grows, ``NNNNN.jsonl.zst`` once sealed.

Sealing compresses to zstd's seekable format (frames of 4 MiB, level 3), so that one record costs one frame and plain
``zstd -dc`` still reads the whole. The sealed file is made outside the stream's directory and moved in whole just
before the plain one is removed. So whoever looks finds at any moment at least one whole form of each chunk and nothing
else; while both are there, the plain one is read.
"""

import contextlib
import errno
import io
import itertools
import logging
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from prl.rundir.following import Block
from prl.rundir.jsonl import MAX_RECORD, Appender, Damage, split_blocks
from prl.rundir.layout import run_of
from prl.rundir.regular import open_regular
from prl.rundir.sealed import SealedSource
from prl.rundir.sources import BLOCK, PIECE, FileSource, Source, SourceReader

FRAME_BYTES = 4 * 1024 * 1024
LEVEL = 3

_NAME = re.compile(r"(\d{5}|[1-9]\d{5,})\.jsonl(\.zst)?", re.ASCII)
_SEALING_NICE = 10
_logger = logging.getLogger(__name__)


def plain_path(directory: Path, number: int) -> Path:
    return directory / f"{number:05d}.jsonl"


def sealed_path(directory: Path, number: int) -> Path:
    return directory / f"{number:05d}.jsonl.zst"


def chunk_numbers(directory: Path) -> list[int]:
    """Numbers of the chunks that exist, in either form, ascending. Empty where there is no such directory."""
    listed = _listed(directory)
    if len(listed) <= max(listed, default=0):
        # A large directory is listed in several calls, between which a chunk may have changed its name. It does so
        # once: whichever a listing missed, the next one has.
        listed |= _listed(directory)
    if not listed:
        return []
    last = max(listed)
    while _exists(directory, last + 1):  # begun since
        last += 1
        listed.add(last)
    return sorted(listed)


def open_chunk(directory: Path, number: int) -> BinaryIO:
    """The uncompressed bytes of a chunk as a seekable file, which raises OSError at what is damaged.

    Raises OSError as :func:`open_source`.
    """
    source = open_source(directory, number)
    return cast(BinaryIO, io.BufferedReader(SourceReader(source), PIECE))


def open_source(directory: Path, number: int) -> Source:
    """The uncompressed bytes of a chunk in blocks. Plain, where it exists in both forms.

    Raises FileNotFoundError when it exists in neither, another OSError when it cannot be opened or is a link that
    leads out of the run directory.
    """
    stale = False
    while True:
        try:
            return _open_either(directory, number)
        except OSError as error:
            if error.errno != errno.ESTALE or stale:  # a network disk's stale handle: opening anew helps
                raise
            stale = True


def read_line(directory: Path, number: int, offset: int) -> bytes:
    """The line at byte ``offset`` of a chunk, without its newline; of one that is too long the beginning.

    Raises OSError when it cannot be read.
    """
    parts: list[bytes] = []
    held = 0
    with open_source(directory, number) as chunk:
        try:
            for block in chunk.pieces(offset):
                line, newline, _ = block.data.partition(b"\n")
                parts.append(line)
                held += len(line)
                if newline or held > MAX_RECORD:
                    break
        except OSError as error:
            raise OSError(f"{plain_path(directory, number)}: {error}") from error
    return b"".join(parts)


def lines_at(
    open_file: Callable[[int], BinaryIO], places: Iterable[tuple[int, int]]
) -> Generator[bytes | None, None, None]:
    """The line at each ``(file, offset)``, None where none can be read; of one that is too long the beginning.

    ``open_file`` opens the file of a number and raises OSError. Fast for places that ascend: a file is read on.
    """
    file: BinaryIO | None = None
    opened = -1
    try:
        for number, offset in places:
            try:
                if number != opened or file is None:
                    if file is not None:
                        file.close()
                    file, opened = None, number
                    file = open_file(number)
                file.seek(offset)
                yield file.readline(MAX_RECORD) or None
            except OSError:
                yield None
    finally:
        if file is not None:
            file.close()


def iter_lines(
    directory: Path, *, chunk: int = 0, offset: int = 0, damage: Damage | None = None
) -> Iterator[tuple[int, int, bytes, bool]]:
    """Lines of a stream from a position on: ``(chunk, offset, line, whether it is complete)``.

    Bytes of a chunk that cannot be read (a damaged frame, a truncated file, a file that is gone) are left out with a
    warning in the log and counted in ``damage`` as one line; where its seek table tells where the next frame begins,
    reading goes on there. Of a line that is partly there the part is given as a line.
    """
    for number in chunk_numbers(directory):
        if number < chunk:
            continue
        holes = _Holes(directory, number, damage)
        start = offset if number == chunk else 0
        try:
            with open_source(directory, number) as source:
                for position, line, complete in _lines(source.blocks(start, on_hole=holes)):
                    yield number, position, line, complete
        except OSError as error:
            holes(start, None, str(error))


def iter_objects(
    directory: Path, damage: Damage, *, chunk: int = 0, offset: int = 0
) -> Iterator[tuple[int, int, dict[str, object]]]:
    """Objects of a stream from a position on: ``(chunk, offset, object)``. What cannot be read goes to ``damage``.

    An unterminated last line of the last chunk is left out, being still written; that of an earlier chunk is damage.
    """
    unfinished: tuple[int, bytes] | None = None
    for number, position, line, complete in iter_lines(directory, chunk=chunk, offset=offset, damage=damage):
        if unfinished is not None:
            damage.add(*unfinished)
            unfinished = None
        if not complete:
            unfinished = (position, line)
            continue
        value = damage.decode(position, line)
        if value is not None:
            yield number, position, value


def seal(directory: Path, number: int, workplace: Path) -> None:
    """Replace the plain form of a chunk by the sealed one, made in ``workplace`` (on the same file system).

    Raises OSError; then the plain form is as it was.
    """
    from pyzstd import SeekableZstdFile

    plain = plain_path(directory, number)
    workplace.mkdir(parents=True, exist_ok=True)
    made = workplace / f"{directory.name}.{number:05d}.jsonl.zst"
    try:
        with plain.open("rb") as source, made.open("wb") as target:
            with SeekableZstdFile(target, "w", level_or_option=LEVEL, max_frame_content_size=FRAME_BYTES) as sealed:
                while block := source.read(BLOCK):
                    sealed.write(block)
            target.flush()
            os.fsync(target.fileno())  # the plain form goes: this must outlive the machine
        with SealedSource(open_regular(made)) as written:
            size = written.size
        if size != plain.stat().st_size:
            raise OSError(f"{plain}: changed while it was sealed")
        made.replace(sealed_path(directory, number))
        plain.unlink()
    finally:
        made.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            workplace.rmdir()  # unless another stream's chunk is being sealed there


class Sealer:
    """Seals chunks in a thread of its own, one after the other, so that a writer never waits for compression."""

    def __init__(self, workplace: Path) -> None:
        self.workplace = workplace
        self._jobs: queue.SimpleQueue[tuple[Path, int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, directory: Path, number: int) -> None:
        """Have a chunk sealed that nobody appends to any more."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sealer", daemon=True)
            self._thread.start()
        self._jobs.put((directory, number))

    def close(self, timeout: float) -> bool:
        """Finish what was submitted. False when that took longer than ``timeout`` seconds: those chunks stay plain."""
        if self._thread is None:
            return True
        self._jobs.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        if sys.platform == "linux":  # where a thread has a priority of its own
            with contextlib.suppress(OSError):  # compression yields to whoever writes when all processors are busy
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _SEALING_NICE)
        while (job := self._jobs.get()) is not None:
            directory, number = job
            try:
                seal(directory, number, self.workplace)
            except Exception as error:
                _logger.warning("%s stays uncompressed: sealing failed (%s)", plain_path(directory, number), error)


class ChunkWriter:
    """Appends lines to a stream. The only writer of its directory.

    Opening it takes up what an earlier process left: plain chunks other than the last are sealed, appending goes on in
    the last if it is plain (on a new line, should the last one be torn), else in a new one. Raises OSError when it
    cannot. ``sealer`` None: chunks stay plain.
    """

    def __init__(self, directory: Path, *, chunk_bytes: int, sealer: Sealer | None) -> None:
        self.directory = directory
        self.chunk_bytes = chunk_bytes
        self.sealer = sealer
        directory.mkdir(parents=True, exist_ok=True)
        numbers = chunk_numbers(directory)
        self.number = numbers[-1] if numbers else 0
        for number in numbers[:-1]:
            if plain_path(directory, number).exists():
                self._seal(number)
        if plain_path(directory, self.number).exists():
            # both forms: the end came between the move and the removal. The plain one grows again.
            sealed_path(directory, self.number).unlink(missing_ok=True)
        elif numbers:
            self.number += 1
        self._file = Appender(plain_path(directory, self.number))
        if plain_path(directory, self.number).exists():
            self._file.end_torn_line()

    def append(self, line: bytes) -> tuple[int, int]:
        """Write a line (with its newline); its chunk and byte offset. A line longer than a chunk gets one to itself.

        Raises OSError; then the stream holds no part of the line that a reader could take for one.
        """
        size = self._file.size()
        if size and size + len(line) > self.chunk_bytes:
            self._file.close()
            self._seal(self.number)
            self.number += 1
            self._file = Appender(plain_path(self.directory, self.number))
        return self.number, self._file.append(line)

    def close(self, *, seal_last: bool) -> None:
        """``seal_last``: the run ended as it should, so nothing will be appended."""
        self._file.close()
        with contextlib.suppress(OSError):
            if seal_last and plain_path(self.directory, self.number).stat().st_size:
                self._seal(self.number)

    def _seal(self, number: int) -> None:
        if self.sealer is not None:
            self.sealer.submit(self.directory, number)


def _exists(directory: Path, number: int) -> bool:
    return plain_path(directory, number).exists() or sealed_path(directory, number).exists()


def _listed(directory: Path) -> set[int]:
    try:
        return {int(match[1]) for path in directory.iterdir() if (match := _NAME.fullmatch(path.name))}
    except OSError:
        return set()


def _open_either(directory: Path, number: int) -> Source:
    plain, sealed = plain_path(directory, number), sealed_path(directory, number)
    for _ in range(2):  # it may be sealed between the two looks
        with contextlib.suppress(FileNotFoundError):
            return FileSource(open_regular(plain, run_of(plain)))
        with contextlib.suppress(FileNotFoundError):
            return SealedSource(open_regular(sealed, run_of(sealed)))
    raise FileNotFoundError(errno.ENOENT, "no such chunk, plain or sealed", str(plain))


class _Holes:
    """Counts and tells what of a chunk cannot be read."""

    def __init__(self, directory: Path, number: int, damage: Damage | None) -> None:
        self.path = plain_path(directory, number)
        self.damage = damage

    def __call__(self, start: int, end: int | None, reason: str) -> None:
        to = "the end" if end is None else f"byte {end}"
        _logger.warning("%s: cannot be read from byte %d to %s (%s)", self.path, start, to, reason)
        if self.damage is not None:
            self.damage.add(start, f"({self.path.name} from byte {start} to {to}: {reason})".encode())


def _lines(blocks: Iterator[Block]) -> Iterator[tuple[int, bytes, bool]]:
    """Lines of blocks with holes between some. What stands right before or after a hole is a line by itself."""
    end = holes = 0

    def holes_before(block: Block) -> int:
        nonlocal end, holes
        holes += block.offset != end
        end = block.offset + len(block.data)
        return holes

    for _, run in itertools.groupby(blocks, holes_before):
        yield from split_blocks(*_bytes_of(run))


def _bytes_of(run: Iterator[Block]) -> tuple[Iterator[bytes], int]:
    """The bytes of blocks and the offset of the first."""
    first = next(run)
    return itertools.chain([first.data], (block.data for block in run)), first.offset

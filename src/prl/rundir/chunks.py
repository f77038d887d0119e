"""A stream of JSON lines in numbered chunks: ``NNNNN.jsonl`` while it grows, ``NNNNN.jsonl.zst`` once sealed.

Sealing compresses to zstd's seekable format (frames of 4 MiB, level 3), so that one record costs one frame and plain
``zstd -dc`` still reads the whole. The sealed file is made outside the stream's directory and moved in whole just
before the plain one is removed. So whoever looks finds at any moment at least one whole form of each chunk and nothing
else; while both are there, the plain one is read.
"""

import contextlib
import io
import logging
import os
import queue
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from prl.rundir.following import READ_BLOCK
from prl.rundir.jsonl import Appender, Damage, split_blocks
from prl.rundir.regular import open_regular

FRAME_BYTES = 4 * 1024 * 1024
LEVEL = 3

_NAME = re.compile(r"(\d{5,})\.jsonl(\.zst)?")
_logger = logging.getLogger(__name__)


def plain_path(directory: Path, number: int) -> Path:
    return directory / f"{number:05d}.jsonl"


def sealed_path(directory: Path, number: int) -> Path:
    return directory / f"{number:05d}.jsonl.zst"


def chunk_numbers(directory: Path) -> list[int]:
    """Numbers of the chunks that exist, in either form, ascending. None where there is no such directory."""
    try:
        names = [path.name for path in directory.iterdir()]
    except OSError:
        return []
    listed = {int(match[1]) for name in names if (match := _NAME.fullmatch(name))}
    if not listed:
        return []
    # A large directory is listed in several calls, between which a chunk may have changed its name: look again.
    numbers = [n for n in range(max(listed) + 1) if n in listed or _exists(directory, n)]
    while _exists(directory, numbers[-1] + 1):
        numbers.append(numbers[-1] + 1)
    return numbers


def open_chunk(directory: Path, number: int) -> BinaryIO:
    """The uncompressed bytes of a chunk, seekable. Raises FileNotFoundError when it exists in neither form."""
    for _ in range(2):  # it may be sealed between the two looks
        with contextlib.suppress(FileNotFoundError):
            return open_regular(plain_path(directory, number))
        with contextlib.suppress(FileNotFoundError):
            return _open_sealed(sealed_path(directory, number))
    raise FileNotFoundError(f"{plain_path(directory, number)}: no such chunk, plain or sealed")


def read_line(directory: Path, number: int, offset: int) -> bytes:
    """The line at byte ``offset`` of a chunk, without its newline. Raises OSError when it cannot be read."""
    from pyzstd import ZstdError

    try:
        with open_chunk(directory, number) as chunk:
            chunk.seek(offset)
            return chunk.readline().removesuffix(b"\n")
    except (ZstdError, EOFError, ValueError) as error:
        raise OSError(f"{sealed_path(directory, number)}: damaged ({error})") from error


def iter_lines(directory: Path, *, chunk: int = 0, offset: int = 0) -> Iterator[tuple[int, int, bytes, bool]]:
    """Lines of a stream from a position on: ``(chunk, offset, line, whether it is complete)``.

    A chunk that cannot be read further (damaged, or gone) ends early with a warning in the log; the next one follows.
    """
    from pyzstd import ZstdError

    for number in chunk_numbers(directory):
        if number < chunk:
            continue
        start = offset if number == chunk else 0
        try:
            with open_chunk(directory, number) as file:
                file.seek(start)
                for position, line, complete in split_blocks(_blocks(file), start):
                    yield number, position, line, complete
        except (OSError, EOFError, ValueError, ZstdError) as error:
            _logger.warning("%s: cannot read chunk %d further (%s)", directory, number, error)


def iter_objects(
    directory: Path, damage: Damage, *, chunk: int = 0, offset: int = 0
) -> Iterator[tuple[int, int, dict[str, object]]]:
    """Objects of a stream from a position on: ``(chunk, offset, object)``. Bad lines go to ``damage``.

    An unterminated last line of the last chunk is left out, being still written; that of an earlier chunk is damage.
    """
    unfinished: tuple[int, bytes] | None = None
    for number, position, line, complete in iter_lines(directory, chunk=chunk, offset=offset):
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
                for block in _blocks(source):
                    sealed.write(block)
            target.flush()
            os.fsync(target.fileno())  # the plain form goes: this must outlive the machine
        with SeekableZstdFile(made) as sealed:
            size = sealed.seek(0, io.SEEK_END)
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


def _open_sealed(path: Path) -> BinaryIO:
    from pyzstd import SeekableFormatError, SeekableZstdFile, ZstdFile

    open_regular(path).close()
    try:
        return cast(BinaryIO, SeekableZstdFile(path))
    except SeekableFormatError:  # sealed by somebody else without a seek table
        return cast(BinaryIO, ZstdFile(path))


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(READ_BLOCK):
        yield block

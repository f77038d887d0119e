"""Chunked streams: rolling, sealing, taking up what was left, and readers that never miss a line."""

import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import pyzstd

from conftest import require_tool
from prl.rundir import jsonl
from prl.rundir.chunks import (
    FRAME_BYTES,
    ChunkWriter,
    Sealer,
    chunk_numbers,
    iter_lines,
    iter_objects,
    open_chunk,
    read_line,
    seal,
)


def line(number: int, size: int = 100) -> bytes:
    return jsonl.encode({"i": number, "pad": "x" * size})


def objects(directory: Path) -> list[object]:
    return [value["i"] for _, _, value in iter_objects(directory, jsonl.Damage())]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_stream_rolls_and_full_chunks_are_sealed(tmp_path: Path) -> None:
    directory, sealer = tmp_path / "stream", Sealer(tmp_path / ".sealing")
    writer = ChunkWriter(directory, chunk_bytes=400, sealer=sealer)
    places = [writer.append(line(i)) for i in range(7)]
    assert [chunk for chunk, _ in places] == [0, 0, 0, 1, 1, 1, 2]
    writer.close(seal_last=False)
    assert sealer.close(10)
    assert names(directory) == ["00000.jsonl.zst", "00001.jsonl.zst", "00002.jsonl"]
    assert objects(directory) == list(range(7))
    assert [jsonl.decode(read_line(directory, *place))[0]["i"] for place in places] == list(range(7))
    assert names(tmp_path) == ["stream"], "nothing of the sealing is left"


def test_a_clean_end_seals_the_last_chunk_too(tmp_path: Path) -> None:
    sealer = Sealer(tmp_path / ".sealing")
    writer = ChunkWriter(tmp_path / "s", chunk_bytes=10_000, sealer=sealer)
    writer.append(line(0))
    writer.close(seal_last=True)
    assert sealer.close(10)
    assert names(tmp_path / "s") == ["00000.jsonl.zst"]
    again = ChunkWriter(tmp_path / "s", chunk_bytes=10_000, sealer=None)
    assert again.append(line(1)) == (1, 0), "a sealed chunk is not opened again"
    again.close(seal_last=True)
    assert names(tmp_path / "s") == ["00000.jsonl.zst", "00001.jsonl"], "without a sealer chunks stay plain"
    assert objects(tmp_path / "s") == [0, 1]


def test_a_line_longer_than_a_chunk_gets_one_to_itself(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path, chunk_bytes=1024, sealer=None)
    assert writer.append(line(0, 5000)) == (0, 0)
    assert writer.append(line(1)) == (1, 0)
    writer.close(seal_last=False)
    assert objects(tmp_path) == [0, 1]


def test_opening_takes_up_what_a_dead_process_left(tmp_path: Path) -> None:
    directory = tmp_path / "stream"
    directory.mkdir()
    (directory / "00000.jsonl").write_bytes(line(0))
    (directory / "00001.jsonl").write_bytes(line(1))
    seal(directory, 1, tmp_path / ".sealing")
    (directory / "00001.jsonl").write_bytes(line(1))  # the removal of the plain form did not happen
    (directory / "00002.jsonl").write_bytes(line(2) + b'{"i":3,"to')
    (directory / "00002.jsonl.zst").write_bytes(b"made before the plain form grew")
    sealer = Sealer(tmp_path / ".sealing")
    writer = ChunkWriter(directory, chunk_bytes=10_000, sealer=sealer)
    assert (directory / "00002.jsonl").read_bytes().endswith(b'{"i":3,"to\n')
    writer.append(line(4))
    writer.close(seal_last=False)
    assert sealer.close(10)
    assert names(directory) == ["00000.jsonl.zst", "00001.jsonl.zst", "00002.jsonl"]
    damage = jsonl.Damage()
    assert [value["i"] for _, _, value in iter_objects(directory, damage)] == [0, 1, 2, 4]
    assert (damage.lines, damage.sample) == (1, '{"i":3,"to')


def test_both_forms_are_read_plain_and_other_names_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "00000.jsonl").write_bytes(line(7))
    for name in ("00000.jsonl.zst", "00001.jsonl.zst.tmp", ".nfs0000000001", "notes.txt"):
        (tmp_path / name).write_bytes(b"no zstd")
    assert chunk_numbers(tmp_path) == [0]
    assert objects(tmp_path) == [7]
    assert chunk_numbers(tmp_path / "absent") == []
    with pytest.raises(FileNotFoundError):
        open_chunk(tmp_path, 5)


def test_the_end_of_a_stream_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "00000.jsonl").write_bytes(line(0) + b'{"torn')
    (tmp_path / "00001.jsonl").write_bytes(line(1) + b'{"i":2')
    damage = jsonl.Damage()
    assert [value["i"] for _, _, value in iter_objects(tmp_path, damage)] == [0, 1]
    assert damage.lines == 1, "only the end of the last chunk may still grow"


def test_a_damaged_sealed_chunk_ends_early_and_the_next_follows(tmp_path: Path) -> None:
    (tmp_path / "00000.jsonl").write_bytes(b"".join(line(i) for i in range(3)))
    seal(tmp_path, 0, tmp_path / "w")
    sealed = tmp_path / "00000.jsonl.zst"
    sealed.write_bytes(sealed.read_bytes()[:-30])
    (tmp_path / "00001.jsonl").write_bytes(line(9))
    assert objects(tmp_path)[-1] == 9
    with pytest.raises(OSError, match="damaged"):
        read_line(tmp_path, 0, 1_000_000)


def test_a_chunk_sealed_without_a_seek_table_is_read(tmp_path: Path) -> None:
    data = line(0) + line(1)
    (tmp_path / "00000.jsonl.zst").write_bytes(pyzstd.compress(data))
    assert objects(tmp_path) == [0, 1]
    assert read_line(tmp_path, 0, len(line(0))) == line(1)[:-1]


def test_sealed_files_are_seekable_and_plain_zstd_reads_them(tmp_path: Path) -> None:
    require_tool("zstd")
    data = b"".join(line(i, 200_000) for i in range(50))
    (tmp_path / "00000.jsonl").write_bytes(data)
    seal(tmp_path, 0, tmp_path / "w")
    sealed = tmp_path / "00000.jsonl.zst"
    frames, _, magic = struct.unpack("<IBI", sealed.read_bytes()[-9:])
    assert magic == 0x8F92EAB1, "the seek table's magic number in zstd's seekable format"
    assert frames == -(-len(data) // FRAME_BYTES)
    out = subprocess.run(["zstd", "-dcf", str(sealed)], capture_output=True, check=True).stdout
    assert out == data


def test_a_failed_seal_leaves_the_plain_chunk(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "00000.jsonl").write_bytes(line(0))
    (tmp_path / "not a directory").write_text("")
    sealer = Sealer(tmp_path / "not a directory")
    sealer.submit(tmp_path / "s", 0)
    assert sealer.close(10)
    assert objects(tmp_path / "s") == [0]
    assert names(tmp_path / "s") == ["00000.jsonl"]


def test_numbers_are_those_of_files(tmp_path: Path) -> None:
    for name in ("00000.jsonl", "9999999.jsonl", "000003.jsonl", "٠٠٠٠٤.jsonl", f"{'9' * 200}.jsonl.zst"):
        (tmp_path / name).write_bytes(line(0))
    assert chunk_numbers(tmp_path) == [0, 9_999_999, int("9" * 200)], "no number in between is looked for"


def test_a_link_that_leaves_the_run_is_refused(tmp_path: Path) -> None:
    stream = tmp_path / "run/monitors/file/traces/stream"
    stream.mkdir(parents=True)
    (tmp_path / "secret.jsonl").write_bytes(line(1))
    (tmp_path / "run/kept.jsonl").write_bytes(line(2))
    (stream / "00000.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (stream / "00001.jsonl").symlink_to("../../../../kept.jsonl")
    (stream / "00002.jsonl").symlink_to("00003.jsonl")
    (stream / "00003.jsonl").symlink_to("00002.jsonl")
    (stream / "00004.jsonl").write_bytes(line(4))
    with pytest.raises(PermissionError, match="leaves the run directory"):
        open_chunk(stream, 0)
    damage = jsonl.Damage()
    assert [value["i"] for _, _, value in iter_objects(stream, damage)] == [2, 4]
    assert damage.lines == 3 and damage.sample.startswith("(00000.jsonl from byte 0 to the end: ")


def test_a_damaged_frame_costs_the_records_in_it(tmp_path: Path) -> None:
    lines = [line(i, 1_500_000) for i in range(9)]
    (tmp_path / "00000.jsonl").write_bytes(b"".join(lines))
    seal(tmp_path, 0, tmp_path / "w")
    sealed = tmp_path / "00000.jsonl.zst"
    data = bytearray(sealed.read_bytes())
    second = pyzstd.get_frame_size(bytes(data))
    data[second + 20 : second + 60] = b"\0" * 40
    sealed.write_bytes(data)
    damage = jsonl.Damage()
    found = [(offset, value["i"]) for _, offset, value in iter_objects(tmp_path, damage)]
    lost = {i for i in range(9) if i * len(lines[0]) < 2 * FRAME_BYTES and (i + 1) * len(lines[0]) > FRAME_BYTES}
    assert {i for _, i in found} >= set(range(9)) - lost
    assert all(offset == i * len(lines[0]) for offset, i in found)
    assert damage.lines >= 1
    assert read_line(tmp_path, 0, 8 * len(lines[0])) == lines[8][:-1]
    with pytest.raises(OSError, match="damaged"):
        read_line(tmp_path, 0, 4 * len(lines[0]))


READER = """
import sys
from pathlib import Path
from prl.rundir import jsonl
from prl.rundir.chunks import chunk_numbers, iter_objects, read_line
directory, rounds, least = Path(sys.argv[1]), 0, 0
while least < int(sys.argv[2]):
    damage, places = jsonl.Damage(), []
    for number, offset, value in iter_objects(directory, damage):
        assert value["i"] == len(places), (value["i"], len(places))
        places.append((number, offset))
    assert len(places) >= least and damage.lines == 0, (len(places), least, damage)
    least, rounds = len(places), rounds + 1
    for i in range(0, least, 97):
        assert jsonl.decode(read_line(directory, *places[i]))[0]["i"] == i
print(rounds)
"""


def test_two_processes_read_while_one_writes_and_seals(tmp_path: Path) -> None:
    directory, records = tmp_path / "stream", 3000
    readers = [
        subprocess.Popen([sys.executable, "-c", READER, str(directory), str(records)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        sealer = Sealer(tmp_path / ".sealing")
        writer = ChunkWriter(directory, chunk_bytes=20_000, sealer=sealer)
        for i in range(records):
            writer.append(line(i))
        writer.close(seal_last=True)
        assert sealer.close(60)
        outputs = [reader.communicate(timeout=60)[0] for reader in readers]
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    assert [reader.returncode for reader in readers] == [0, 0]
    assert all(int(output) >= 1 for output in outputs)


def test_a_reader_never_misses_a_line_and_never_sees_half_a_chunk(tmp_path: Path) -> None:
    directory, sealer = tmp_path / "stream", Sealer(tmp_path / ".sealing")
    writer = ChunkWriter(directory, chunk_bytes=3_000, sealer=sealer)
    written, stop = [0], threading.Event()

    def write() -> None:
        for i in range(1500):
            writer.append(line(i))
            written[0] = i + 1
        writer.close(seal_last=True)
        sealer.close(30)
        stop.set()

    thread = threading.Thread(target=write)
    thread.start()
    rounds, odd = 0, set()
    try:
        while not stop.is_set() or rounds == 0:
            least = written[0]
            found = objects(directory) if directory.exists() else []
            assert found == list(range(len(found)))
            assert len(found) >= least
            odd |= {name for name in names(directory) if not name.endswith((".jsonl", ".jsonl.zst"))}
            for path in directory.glob("*.zst"):
                with pyzstd.SeekableZstdFile(path) as file:
                    assert file.seek(0, 2) > 0
            rounds += 1
    finally:
        thread.join(60)
    assert not odd
    assert objects(directory) == list(range(1500))
    assert all(name.endswith(".zst") for name in names(directory))
    assert sum(1 for _ in iter_lines(directory, chunk=3)) == 1500 - 3 * (3_000 // len(line(10)))

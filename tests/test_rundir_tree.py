"""Names found in a run directory are followed inside it alone, and nothing that lies there makes a reading fail."""

import errno
import os
from pathlib import Path

import pytest

from made_up_runs import write
from prl.rundir import tree as tree_module
from prl.rundir.tree import RunTree


def test_what_is_there_is_read_and_what_is_not_is_absent(tmp_path: Path) -> None:
    tree = RunTree(write(tmp_path, {"a/b.json": {"x": 1}, "a/.nfs0001": "", "c.txt": "caf\u00e9"}))
    assert (tree.document("a/b.json"), tree.names("a"), tree.names()) == ({"x": 1}, ["b.json"], ["a", "c.txt"])
    assert tree.read("c.txt") == "café".encode()
    for name in ("absent", "a/b.json/c", "x/y/z", "../" + tmp_path.name, "/etc/passwd", "a//b.json", "nul\0"):
        assert (tree.stat(name), tree.read(name), tree.names(name)) == (None, None, [])
    assert tree.trouble == []


def test_link_that_leaves_the_run_is_refused_and_said(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"secret.json": {"key": 1}})
    run = write(tmp_path / "run", {"configs/x.json": {}})
    (run / "configs/file.json").symlink_to(outside / "secret.json")
    (run / "logs").symlink_to("../outside")
    tree = RunTree(run)
    assert (tree.document("configs/file.json"), tree.names("logs"), tree.read("logs/secret.json")) == (None, [], None)
    assert tree.trouble == [
        "configs/file.json: a link that leaves the run directory: not followed",
        "logs: a link that leaves the run directory: not followed",
    ]


def test_links_inside_the_run_and_to_the_run_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "real", {"logs/attempt_1/trainer.log": "x", "logs/node/a": "y"})
    (tmp_path / "real/logs/latest").symlink_to("attempt_1")
    (tmp_path / "real/short").symlink_to("logs/node")
    (tmp_path / "run").symlink_to("real")
    tree = RunTree(tmp_path / "run")
    assert (tree.read("logs/latest/trainer.log"), tree.read("short/a"), tree.trouble) == (b"x", b"y", [])


def test_dangling_links_and_circles_are_absent(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "latest").symlink_to("attempt_9")
    (tmp_path / "up").symlink_to(".")
    tree = RunTree(tmp_path)
    assert [tree.stat(name) for name in ("a", "b", "self", "latest", "a/x")] == [None] * 5
    assert tree.names("up/up/up") == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "not JSON"),
        (b"[1]", "a JSON list, not an object"),
        (b"null", "a JSON NoneType"),
        (b"[" * 5000, "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"", "not JSON"),
    ],
)
def test_document_that_is_none_is_trouble(tmp_path: Path, content: bytes, told: str) -> None:
    tree = RunTree(write(tmp_path, {"x.json": content}))
    assert tree.document("x.json") is None
    assert tree.trouble[0].startswith(f"x.json: {told}")


def test_other_writers_documents_are_read(tmp_path: Path) -> None:
    tree = RunTree(write(tmp_path, {"x.json": b'{"a": NaN, "b": "caf\xe9"}'}))
    found = tree.document("x.json")
    assert found is not None
    assert (str(found["a"]), found["b"]) == ("nan", "caf\ufffd")


def test_pipe_and_directory_in_place_of_a_file_do_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dir").mkdir()
    tree = RunTree(tmp_path)
    assert [tree.read("pipe"), tree.tail("pipe", 10), tree.head("dir", 10), tree.document("dir")] == [None] * 4
    assert tree.trouble[0] == "pipe: not a regular file but a named pipe"
    assert tree.trouble[-1] == "dir: Is a directory"


def test_large_file_is_not_read_whole(tmp_path: Path) -> None:
    tree = RunTree(write(tmp_path, {"big": "x" * 100}))
    assert tree.read("big", 99) is None
    assert "larger than the 99 bytes" in tree.trouble[0]
    assert (tree.tail("big", 10), tree.head("big", 3)) == ((90, b"x" * 10), b"xxx")


def test_unreadable_directory_is_trouble_and_not_absence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"locked/x": ""})

    def refuse(path: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tree_module.os, "scandir", refuse)
    tree = RunTree(tmp_path)
    assert (tree.names("locked"), tree.trouble) == ([], ["locked: Permission denied"])


@pytest.mark.parametrize(("failures", "result"), [(1, b"content"), (2, None)])
def test_stale_handle_is_opened_anew_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, result: bytes | None
) -> None:
    write(tmp_path, {"x": "content"})
    opened, left = tree_module.open_regular, [failures]

    def stale(path: Path) -> object:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ESTALE, "Stale file handle")
        return opened(path)

    monkeypatch.setattr(tree_module, "open_regular", stale)
    tree = RunTree(tmp_path)
    assert tree.read("x") == result
    assert tree.trouble == ([] if result else ["x: Stale file handle"])


def test_file_that_vanishes_between_look_and_reading_is_absent(tmp_path: Path) -> None:
    tree = RunTree(write(tmp_path, {"x": "content"}))
    assert tree.stat("x") is not None
    (tmp_path / "x").unlink()
    assert (tree.read("x"), tree.trouble) == (None, [])


def test_trouble_is_bounded(tmp_path: Path) -> None:
    tree = RunTree(write(tmp_path, {f"{index}.json": "[" for index in range(50)}))
    assert [tree.document(name) for name in tree.names()] == [None] * 50
    assert len(tree.trouble) == tree_module.MAX_TROUBLE

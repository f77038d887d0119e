"""The pages' own files: from an allow-list by kind, compressed once, with an ETag.

Left out: files of runs. Those never leave by a path that a client gives.
"""

import re
import threading
from pathlib import Path

from prl.dashboard.answers import Answer, pack

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
"""What is served, by suffix, and as what."""
_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/){0,6}[A-Za-z0-9_][A-Za-z0-9_.-]*")


class StaticFiles:
    """The files below a directory, kept in memory as they were last."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[tuple[int, int], Answer]] = {}

    def get(self, name: str) -> Answer | None:
        """The file of that name below the directory; None when there is none that is served."""
        media_type = KINDS.get(Path(name).suffix)
        if media_type is None or not _NAME.fullmatch(name):
            return None
        path = self._directory / name
        try:
            if path.resolve() != path or not path.is_file():  # a link leads elsewhere
                return None
            stat = path.stat()
            sign = stat.st_mtime_ns, stat.st_size
            with self._lock:
                kept = self._kept.get(name)
                if kept is None or kept[0] != sign:
                    kept = self._kept[name] = sign, pack(path.read_bytes(), media_type=media_type)
                return kept[1]
        except OSError:
            return None

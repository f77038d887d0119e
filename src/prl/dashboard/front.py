"""The HTML document: the page's files under a name that changes when one of them does, and all its modules at once.

A module's imports are known only when it has come, so that a chain of them takes a round trip each; the document names
them all beforehand. The name lets a browser keep files for good, and ask for none of them at the next visit. Left out:
anything of a run, and any script or style in the document itself, which the policy forbids.
"""

import posixpath
import re
import threading
from hashlib import blake2b
from pathlib import Path

from prl.dashboard.answers import Answer, pack
from prl.dashboard.static_files import KINDS

DOCUMENT = "index.html"
VERSION = re.compile(r"v[0-9a-f]{12}")
"""Of the files together, as it stands in their addresses."""
_IMPORT = re.compile(r'^(?:import|export)\b[^"\']*?from\s*["\'](\.[^"\']+)["\']', re.M)
_LOCAL = re.compile(r'(src|href)="static/')
_PRELOADED = '<link rel="modulepreload" href="static/js/main.js" />'


class FrontPage:
    """The document of each page, made again when a file changed."""

    def __init__(self, static: Path) -> None:
        self._static = static
        self._lock = threading.Lock()
        self._version = ""
        self._pages: set[str] = set()
        self._made: dict[str, Answer] = {}

    @property
    def version(self) -> str:
        """Of the files as the newest document names them; empty before there is one."""
        return self._version

    def get(self, page: str) -> Answer:
        """The document for a page; for one that does not exist that of the frame alone. Raises OSError."""
        version = self._state()
        with self._lock:
            if version != self._version:
                self._version, self._made = version, {}
                self._pages = {path.parent.name for path in self._static.glob("js/pages/*/page.js")}
            known = page if page in self._pages else ""
            found = self._made.get(known)
            if found is None:
                found = self._made[known] = self._document(known, version)
            return found

    def _document(self, page: str, version: str) -> Answer:
        text = (self._static / DOCUMENT).read_text()
        own = ["js/main.js", *([f"js/pages/{page}/page.js"] if page else [])]
        links = [f'<link rel="modulepreload" href="static/{name}" />' for name in self._modules(own)]
        if page and (self._static / f"css/{page}.css").is_file() and f"css/{page}.css" not in text:
            links.append(f'<link rel="stylesheet" href="static/css/{page}.css" />')
        text = text.replace(_PRELOADED, "\n    ".join(links))
        text = _LOCAL.sub(rf'\1="static/{version}/', text)
        return pack(text.encode(), media_type=KINDS[".html"])

    def _modules(self, names: list[str]) -> list[str]:
        """These modules and all that they import, each once, those first that are met first."""
        found: dict[str, None] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop(0)
            if name in found:
                continue
            found[name] = None
            text = (self._static / name).read_text()
            waiting += [posixpath.normpath(posixpath.join(posixpath.dirname(name), to)) for to in imports(text)]
        return list(found)

    def _state(self) -> str:
        """A name for all files as they are now."""
        digest = blake2b(digest_size=6)
        for path in sorted(self._static.rglob("*")):
            if path.suffix in KINDS:
                stat = path.stat()
                digest.update(f"{path.name}{stat.st_mtime_ns}{stat.st_size}\n".encode())
        return f"v{digest.hexdigest()}"


def imports(text: str) -> list[str]:
    """The relative addresses that a module imports at once (not those that it imports when they are needed)."""
    return [*_IMPORT.findall(text), *re.findall(r'\bfrom"(\./[^"]+)"', text)]

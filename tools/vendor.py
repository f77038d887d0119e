"""Copy the browser libraries from ``node_modules`` to where the dashboard serves them, or check that they are the same.

    npm install && python tools/vendor.py            # after changing a version in package.json
    python tools/vendor.py --check                   # exits 1 where a file differs

The copies differ from the packages in two ways: bare module names become relative ones, as browsers want them without
an import map, and the addresses of source maps, which are not served, are left out.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ROOT / "node_modules"
VENDOR = ROOT / "src/prl/dashboard/static/vendor"
FILES = {
    "preact.mjs": "preact/dist/preact.mjs",
    "preact.LICENSE": "preact/LICENSE",
    "hooks.mjs": "preact/hooks/dist/hooks.mjs",
    "htm.mjs": "htm/dist/htm.module.js",
    "htm.LICENSE": "htm/LICENSE",
    "uplot.mjs": "uplot/dist/uPlot.esm.js",
    "uplot.css": "uplot/dist/uPlot.min.css",
    "uplot.LICENSE": "uplot/LICENSE",
}
HTM_TYPES = """\
declare const htm: {
  bind<H>(h: (type: any, props: any, ...children: any[]) => H): (strings: TemplateStringsArray, ...values: any[]) => H;
};
export default htm;
"""
"""The package's own types are of a CommonJS module, whose default export is another thing."""
TYPES = {
    "preact.d.mts": 'export * from "preact";\n',
    "hooks.d.mts": 'export * from "preact/hooks";\n',
    "htm.d.mts": HTM_TYPES,
    "uplot.d.mts": 'export { default } from "uplot";\n',
}
"""For the type checker: a copy has its package's types."""


def contents() -> dict[str, str]:
    """What each file is to hold."""
    copies = {name: _served((PACKAGES / source).read_text()) for name, source in FILES.items()}
    return {**copies, **TYPES}


def _served(text: str) -> str:
    text = re.sub(r'from\s*"preact"', 'from"./preact.mjs"', text)
    return re.sub(r"\n?//# sourceMappingURL=\S+\s*$", "\n", text)


def main() -> int:
    wrong = [name for name, text in contents().items() if _differs(VENDOR / name, text)]
    if "--check" in sys.argv[1:]:
        for name in wrong:
            print(f"{VENDOR / name} is not what package.json says: run tools/vendor.py", file=sys.stderr)
        return 1 if wrong else 0
    for name, text in contents().items():
        (VENDOR / name).write_text(text)
    return 0


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text() != text


if __name__ == "__main__":
    sys.exit(main())

"""Runs the blocks of pages as a reader does: in a new environment with what the page says to install.

``python tests/docs/fresh.py README.md docs/how-to/track.md``, or without names every page with blocks.
Pages with the same extras share an environment. Exits with 1 if a block of any fails.
"""

import re
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from pathlib import Path

from code_blocks import ROOT, code_blocks, documents

# What README and the start page begin with, and what runs the blocks.
FIRST = frozenset({"xgboost-cpu"})
RUNNER = ("markdown-it-py>=3,<5", "pytest>=8.3,<10", "pytest-timeout>=2.3,<3")
_INSTALLED = re.compile(r"pip install -e '\.\[([\w,-]+)\]'")
# The start page lists every extra, and its blocks need none.
_LISTS = ROOT / "docs" / "index.md"


def main(names: list[str]) -> None:
    pages = [ROOT / name for name in names] or [path for path in documents() if code_blocks(path)]
    groups = defaultdict(list)
    for page in pages:
        groups[extras_of(page)].append(page)
    failed = [page for extras, group in sorted(groups.items(), key=str) for page in run_pages(extras, group)]
    print(f"{len(pages) - len(failed)} of {len(pages)} pages ran from a new environment.", *failed, sep="\n")
    sys.exit(bool(failed))


def extras_of(page: Path) -> frozenset[str]:
    """Return the extras that a page says to install, and what each reader has."""
    said = [] if page == _LISTS else _INSTALLED.findall(page.read_text())
    return FIRST | {extra for extras in said for extra in extras.split(",")}


def run_pages(extras: frozenset[str], pages: list[Path]) -> list[Path]:
    """Run pages in a new environment; return those that fail."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        wanted = f"{ROOT}[{','.join(sorted(extras))}]"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", wanted]
        subprocess.run([*install, *RUNNER], check=True)
        return [page for page in pages if not _passes(python, page)]


def _passes(python: str, page: Path) -> bool:
    test = f"tests/docs/test_docs_run.py::test_blocks_run_in_the_order_of_the_page[{page.relative_to(ROOT)}]"
    plain = ["--noconftest", "-o", "addopts=", "-o", "filterwarnings=", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [python, "-m", "pytest", *plain, test], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(f"{page.relative_to(ROOT)}: {'ran' if done.returncode == 0 else done.stdout[-3000:]}", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    main(sys.argv[1:])

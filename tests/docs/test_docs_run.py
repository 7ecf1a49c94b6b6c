"""Runs the code blocks of each page, and builds the site: `make test-docs`."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import ROOT, CodeBlock, code_blocks, documents

pytestmark = [pytest.mark.docs, pytest.mark.timeout(1200)]


def with_blocks() -> list[Path]:
    return [path for path in documents() if any(_is_run(block) for block in code_blocks(path))]


def _is_run(block: CodeBlock) -> bool:
    return block.language in ("sh", "python") and bool(block.to_run.strip())


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder as a fresh clone is to its reader, with what is installed at hand."""
    for name in ("configs", "datasets"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / ".venv" / "replay.stamp").touch()  # newer than pyproject.toml: nothing is installed
    return tmp_path


def environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}


def run(block: CodeBlock, folder: Path) -> None:
    program = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
    done = subprocess.run(
        [*program, block.to_run], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    printed = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0, f"{block.place}\n{block.to_run}\n{printed}"


@pytest.mark.parametrize("path", with_blocks(), ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_run_in_the_order_of_the_page(path: Path, scratch: Path) -> None:
    for block in code_blocks(path):
        if _is_run(block):
            run(block, scratch)


def test_site_builds_without_a_warning_and_loads_nothing_from_the_network(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        env={**environment(), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=[\"']?(https?:)?//")
    for page in site.rglob("*.html"):
        found = [tag[0] for tag in loaded.finditer(page.read_text()) if 'rel="canonical"' not in tag[0]]
        assert not found, f"{page.relative_to(site)}: {found}"
    for page in (site / "reference").glob("*.html"):
        assert not empty_sections(page), page.name


def empty_sections(page: Path) -> list[str]:
    """Headings of a page of the reference that nothing follows: names of which nothing is said."""
    article = page.read_text().partition("<article")[2].partition("</article>")[0]
    sections = [section.partition("</h2>") for section in article.split("<h2 ")[1:]]
    return [heading for heading, _, text in sections if not re.sub(r"<.*?>", "", text).strip()]

"""What the documents name exists: options, imports, files, links and anchors. Nothing of them is run."""

import ast
import importlib.util
import pkgutil
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from code_blocks import ROOT, code_blocks, command_lines, documents, inline_code, tokens
from command_line import find, parse

import costmodel

PAGES = pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
# Pages that are made when the site is built.
PACKAGES = [package.name for package in pkgutil.iter_modules(costmodel.__path__) if package.ispkg]
MADE = {
    "reference/integrations-helion.md",
    "reference/integrations-kernel_tuner.md",
    "reference/integrations-inductor.md",
    "reference/integrations-triton.md",
    "reference/integrations-tvm.md",
    "reference/python.md",
    *(f"reference/{package}.md" for package in PACKAGES),
}
OPTIONAL = ("tvm", "mlflow", "kernel_tuner", "triton", "helion", "torch")


def linked_documents() -> list[Path]:
    """All documents of the repository."""
    others = [
        path for folder in ("experiments", "datasets") for path in sorted((ROOT / folder).rglob("*.md"))
    ]
    return [*documents(), ROOT / "CHANGELOG.md", *others]


def slug(heading: str) -> str:
    """The anchor of a heading, as MkDocs and code hosts make it where both agree."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def anchors(path: Path) -> set[str]:
    found = tokens(path)
    headings = (found[at + 1] for at, token in enumerate(found) if token.type == "heading_open")
    return {slug("".join(child.content for child in heading.children or [])) for heading in headings}


def links(path: Path) -> Iterator[str]:
    for token in tokens(path):
        for child in token.children or []:
            target = child.attrGet("href") or child.attrGet("src")
            if target and "://" not in str(target):
                yield str(target)


@PAGES
def test_command_lines_parse(path: Path) -> None:
    for block in code_blocks(path):
        for line in command_lines(block):
            try:
                with suppress(typer.Exit):  # --help and --version end where they are parsed
                    parse(line)
            except Exception as error:
                raise AssertionError(f"{block.place}: {line}: {error!r}") from error


@PAGES
def test_options_within_the_text_exist(path: Path) -> None:
    for code in inline_code(path):
        if code.startswith("costmodel ") and not re.search(r"[|…]|NAME|RUN", code):
            command, rest = find(*shlex.split(code)[1:])
            options = {word for parameter in command.params for word in parameter.opts}
            used = {word.partition("=")[0] for word in rest if word.startswith("--")}
            assert used <= options | {"--help", "--version"}, f"{path.name}: {code}"


@PAGES
def test_python_compiles_and_its_imports_resolve(path: Path) -> None:
    for block in code_blocks(path):
        if block.language == "python":
            for node in ast.walk(ast.parse(block.text, block.place)):
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    _check_import(str(node.module), [name.name for name in node.names], block.place)
                elif isinstance(node, ast.Import):
                    for name in node.names:
                        _check_import(name.name, [], block.place)


def _check_import(module: str, names: list[str], place: str) -> None:
    """Import what is ours, but for plug-ins; only find the packages of others, which may be slow."""
    top = module.partition(".")[0]
    if top == "costmodel" and not module.startswith("costmodel.integrations."):
        # Not hasattr, which would load what names stand for, and with it packages that may be missing.
        missing = sorted(set(names) - set(dir(import_module(module))))
        assert not missing, f"{place}: {module} has no {', '.join(missing)}"
    elif top not in OPTIONAL:
        assert importlib.util.find_spec(module if top == "costmodel" else top), f"{place}: no {module}"


@PAGES
def test_toml_parses(path: Path) -> None:
    for block in code_blocks(path):
        if block.language == "toml":
            tomllib.loads(block.text)


@PAGES
def test_files_and_targets_that_commands_name_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for block in code_blocks(path):
        if block.language == "sh":
            named = re.findall(r"(?<![\w/.-])(?:configs|experiments)/[\w./-]+", block.text)
            assert all((ROOT / name).exists() for name in named), f"{block.place}: {named}"
            assert set(re.findall(r"^make ([a-z-]+)", block.text, re.MULTILINE)) <= targets, block.place
            for listed in re.findall(r"pip install .*\[([\w,-]+)\]", block.text):
                assert set(listed.split(",")) <= extras.keys(), f"{block.place}: {listed}"


@pytest.mark.parametrize("path", linked_documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_anchors_resolve(path: Path) -> None:
    for link in links(path):
        target, _, anchor = link.partition("#")
        to = (path.parent / target).resolve() if target else path
        if to.is_relative_to(ROOT / "docs") and to.relative_to(ROOT / "docs").as_posix() in MADE:
            continue
        assert to.exists(), f"{path.relative_to(ROOT)}: {link}"
        if anchor and to.suffix == ".md":
            assert anchor in anchors(to), f"{path.relative_to(ROOT)}: {link}"


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.skipif(
    not shutil.which("git") or git("rev-parse", "--is-shallow-repository").stdout.strip() != "false",
    reason="needs git and the whole history",
)
def test_commits_that_the_figures_name_are_in_the_history() -> None:
    page = (ROOT / "docs" / "figures.md").read_text()
    named = re.findall(r"\b[0-9a-f]{7}\b", " ".join(re.findall(r"\(commits? ([^)]+)\)", page)))
    assert named
    missing = [
        commit for commit in named if git("merge-base", "--is-ancestor", commit, "HEAD").returncode != 0
    ]
    assert not missing


def _cli_reference() -> Any:
    spec = importlib.util.spec_from_file_location("cli_reference", ROOT / "docs" / "_cli_reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_of_the_command_line_has_every_option_and_is_the_same_twice() -> None:
    module = _cli_reference()
    page = module.cli_reference()
    assert page == module.cli_reference()
    sections = {part.partition("\n")[0]: part for part in page.split("\n## ")[1:]}
    for names, command in module.commands():
        section = sections[" ".join(["costmodel", *names])]
        options = [word for parameter in command.params for word in parameter.opts if word.startswith("--")]
        assert options
        assert all(option in section for option in options if option != "--help")


def test_the_start_page_lists_every_command() -> None:
    page = (ROOT / "docs" / "index.md").read_text().replace("\\|", "|")
    listed = re.findall(r"`costmodel ([a-z-]+)((?: [a-z|-]+)?)", page)
    told = {(name, sub) for name, subs in listed for sub in (subs.strip().split("|") if subs else [""])}
    groups = {names for names, _ in _cli_reference().commands() if names}
    commands = {tuple(names) for names in groups if not any(each[:-1] == names for each in groups)}
    missing = {names for names in commands if (names[0], names[1] if len(names) > 1 else "") not in told}
    assert not missing


def test_unknown_reason_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- test: no time -->\n\n```sh\ntrue\n```\n")
    with pytest.raises(ValueError, match="must say one of needs gpu"):
        list(code_blocks(page))


def test_comment_before_no_block_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- test: long -->\n\ntext\n")
    with pytest.raises(ValueError, match="stands before no block"):
        list(code_blocks(page))


def test_comment_exempts_lines_or_the_whole_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- test: long `b` -->\n<!-- test: needs gpu `c` -->\n```sh\na 1\nb \\\n  2\nc\n```\n\n"
        "<!-- test: needs files -->\n\n```sh\na\n```\n"
    )
    some, none = code_blocks(page)
    assert some.to_run == "a 1"
    assert none.to_run == ""

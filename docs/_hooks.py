"""What MkDocs adds to the pages of this folder: pages made of the repository and of the package.

Markdown of the repository (dataset cards, experiments, CONTRIBUTING, CHANGELOG) and notebooks become pages.
Pages link to files of the repository by relative path, as on a code host: links to what is a page lead there,
those to other files become plain text, as the site does not carry the source.
"""

import ast
import pkgutil
import re
from pathlib import Path, PurePosixPath
from typing import Any

from _cli_reference import cli_reference  # beside this file: MkDocs imports hooks so that they find it
from _notebooks import notebook_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import costmodel
from costmodel import integrations

ROOT = Path(__file__).parents[1]
DATASETS = ("h100-sm-budgets", "sm-budgets")
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
CELL = re.compile("<td.*?</td>", re.DOTALL)
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def package_names() -> list[str]:
    """The packages of costmodel, with those of the plug-ins."""
    packages = [package.name for package in pkgutil.iter_modules(costmodel.__path__) if package.ispkg]
    packages.remove("integrations")
    packages += [f"integrations.{package.name}" for package in pkgutil.iter_modules(integrations.__path__)]
    return sorted(package for package in packages if package != "cli")


def python_reference() -> str:
    """The names that ``import costmodel`` gives."""
    introduction = "`import costmodel` gives these names; each is loaded when it is used."
    return "\n".join([f"# Python\n\n{introduction}\n", *_sections("costmodel")])


def package_reference(package: str) -> str:
    """What a package says of itself, and each name that it gives."""
    module = f"costmodel.{package}"
    introduction = f"::: {module}\n    options:\n      members: false\n"
    return "\n".join([f"# {package}\n\n{introduction}", *_sections(module)])


def _sections(package: str) -> list[str]:
    return [f"## {name}\n\n::: {path}\n" for name, path in public_names(package).items()]


def public_names(package: str) -> dict[str, str]:
    """The names that the stub of a package lists, and where each is defined.

    Names are loaded late, which mkdocstrings does not follow.
    """
    stub = ROOT.joinpath(*package.split("."), "__init__.pyi").read_text(encoding="utf-8")
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {
        alias.name: f"{package}.{node.module}.{alias.name}"
        for node in imports
        for alias in node.names
        if not alias.name.startswith("_")
    }


def repository_pages() -> dict[str, str]:
    """Path in the repository to path on the site, of each Markdown file and notebook that is a page."""
    notebooks = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
    experiments = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/README.md"))
    return {
        **{f"notebooks/{name}.ipynb": f"notebooks/{name}.md" for name in notebooks},
        **{f"datasets/{name}/README.md": f"data/{name}.md" for name in DATASETS},
        "experiments/README.md": "experiments/index.md",
        "experiments/LOG.md": "experiments/log.md",
        **{f"experiments/{name}/README.md": f"experiments/{name}.md" for name in experiments},
        "CONTRIBUTING.md": "contributing.md",
        "CHANGELOG.md": "changelog.md",
    }


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add what is made here to the navigation."""
    pages = list(repository_pages().values())
    assert config.nav is not None
    config.nav += [
        {"Notebooks": [page for page in pages if page.startswith("notebooks/")]},
        {"Data": [page for page in pages if page.startswith("data/")]},
        {"Experiments": _experiments(pages)},
        {
            "Reference": [
                "reference/index.md",
                "reference/python.md",
                "reference/cli.md",
                *map(_package_page, package_names()),
            ]
        },
        {"Project": [{"Contributing": "contributing.md"}, {"Changelog": "changelog.md"}]},
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages made of the repository, their pictures, and the reference."""
    for source, page in repository_pages().items():
        text, pictures = _content(source)
        files.append(File.generated(config, page, content=text))
        for picture, content in pictures.items():
            files.append(File.generated(config, picture, content=content))
    files.append(File.generated(config, "reference/cli.md", content=cli_reference()))
    files.append(File.generated(config, "reference/python.md", content=python_reference()))
    for package in package_names():
        page = File.generated(config, _package_page(package), content=package_reference(package))
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to the repository at the site."""
    source = _source_of(page.file.src_uri)
    return outside_fences(markdown, lambda text: LINK.sub(lambda link: _site_link(link, source, page), text))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show ``|`` in code of tables without the backslash that it needs and Python-Markdown keeps."""
    return CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)


def outside_fences(markdown: str, change: Any) -> str:
    """The text, changed but for its code blocks."""
    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def _experiments(pages: list[str]) -> list[Any]:
    """Their index, and each by the name of its folder: titles are questions, too long for a list."""
    index, *others = [page for page in pages if page.startswith("experiments/")]
    return [index, *({PurePosixPath(page).stem: page} for page in others)]


def _package_page(package: str) -> str:
    return f"reference/{package.replace('.', '-')}.md"


def _source_of(page: str) -> str:
    """The file of the repository that a page is made of."""
    return next((source for source, made in repository_pages().items() if made == page), f"docs/{page}")


def _content(source: str) -> tuple[str, dict[str, bytes]]:
    """Markdown of a file of the repository, and its pictures by their paths on the site."""
    if source.endswith(".ipynb"):
        return notebook_page(ROOT / source)
    text = (ROOT / source).read_text(encoding="utf-8")
    links = (link["target"] for link in LINK.finditer(text) if link["image"])
    pictures = [_resolve(source, target) for target in links if "://" not in target]
    return text, {picture: (ROOT / picture).read_bytes() for picture in pictures}


def _resolve(source: str, target: str) -> str:
    """The path in the repository that a relative link in ``source`` means."""
    path = (ROOT / source).parent / target
    return path.resolve().relative_to(ROOT.resolve()).as_posix() if path.exists() else target


def _site_link(link: re.Match[str], source: str, page: Page) -> str:
    target, _, anchor = link["target"].partition("#")
    if "://" in target or not target:
        return link[0]
    path = _resolve(source, target)
    if path.startswith("docs/"):
        return (
            link[0] if source.startswith("docs/") else _link(link, path.removeprefix("docs/"), anchor, page)
        )
    if link["image"]:
        return _link(link, path, anchor, page)
    if path in repository_pages():
        return _link(link, repository_pages()[path], anchor, page)
    return link["text"] if (ROOT / path).exists() else link[0]


def _link(link: re.Match[str], target: str, anchor: str, page: Page) -> str:
    up = "../" * (len(PurePosixPath(page.file.src_uri).parts) - 1)
    return f"{link['image']}[{link['text']}]({up}{target}{'#' if anchor else ''}{anchor})"

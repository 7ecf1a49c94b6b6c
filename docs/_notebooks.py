"""Notebooks as pages of the site, with the outputs that are kept in them."""

from pathlib import Path

from nbconvert import MarkdownExporter


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook in Markdown, and the pictures that it shows, by the paths to which it links."""
    folder = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
    markdown, made = MarkdownExporter().from_filename(str(path), resources=folder)
    return markdown, made["outputs"]

"""Tables of texts, and a web page without scripts and network access, in one file."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ max-width: 72rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; font-size: 85%; }}
th, td {{ padding: 0.2rem 0.6rem; border-bottom: 1px solid #ddd; white-space: nowrap; }}
img {{ max-width: 100%; }}
pre {{ overflow-x: auto; padding: 0.6rem; background: #f4f4f4; }}
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def web_page(title: str, body: str, style: str = "") -> str:
    """Return the page.

    Args:
        title: Title of the page in the browser; plain text.
        body: HTML in which external text is escaped.
        style: Lines of CSS in addition to those of every page.
    """
    return _PAGE.format(title=escape(title), body=body, style=style)


def markdown_page(title: str, markdown: str) -> str:
    """Return a text in Markdown as a page.

    Args:
        title: Title of the page in the browser; plain text.
        markdown: The text. HTML in it is shown, not followed.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    return web_page(title, parser.render(markdown).rstrip())


def figure_html(figure: "Figure", caption: str, dpi: int = 130) -> str:
    """Return a figure as an inline PNG above its caption, which is escaped.

    Args:
        figure: A figure of Matplotlib.
        caption: What it shows; also its text for those who do not see it.
        dpi: Resolution in pixels per inch.
    """
    file = BytesIO()
    figure.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return (
        f'<figure>\n<img alt="{escape(caption)}" src="data:image/png;base64,{data}">\n'
        f"<figcaption>{escape(caption)}</figcaption>\n</figure>"
    )


def format_three_digits(value: float) -> str:
    """Write a positive number with three or more digits."""
    return f"{value:#.3g}".removesuffix(".") if value < 100 else f"{value:.0f}"


@dataclass(frozen=True)
class TextTable:
    """A table of texts, for terminals, notebooks, pages and Markdown.

    Attributes:
        title: Title of the table; empty for none.
        header: Names of the columns. The first column names the rows.
        rows: Cells, one per column.
        form: A letter for each column: ``l`` for names, to the left; ``r`` for numbers, to the right; ``w``
            for words, to the left, which a terminal wraps where it has no room. Default: names, then numbers.
    """

    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    form: str = ""

    def __post_init__(self) -> None:
        """Fill in the form."""
        object.__setattr__(self, "form", self.form or "l".ljust(len(self.header), "r"))

    def to_html(self) -> str:
        """Return the table under its title, as a heading. All texts are escaped."""
        title = f"<h2>{escape(self.title)}</h2>\n" if self.title else ""
        header = "".join(f"<th>{escape(name)}</th>" for name in self.header)
        rows = "\n".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in self.rows
        )
        return f"{title}<table>\n<tr>{header}</tr>\n{rows}\n</table>"

    def to_markdown(self) -> str:
        """Return the table in Markdown, without its title."""
        ruler = ["---:" if letter == "r" else "---" for letter in self.form]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (self.header, ruler, *self.rows))


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """Return an HTML table of names and texts under a title, for notebooks. All texts are escaped."""
    rows = (
        f"<tr><th style='text-align: left'>{escape(name)}</th>"
        f"<td style='text-align: left'>{escape(text)}</td></tr>"
        for name, text in facts.items()
    )
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"

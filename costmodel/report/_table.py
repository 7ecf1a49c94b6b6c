"""A table of texts, for pages, cards and terminals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class TextTable:
    """A table of texts.

    Attributes:
        title: Title of the table; empty for none.
        header: Names of the columns. The first column names the rows.
        rows: Cells, one per column.
    """

    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]

    def to_html(self) -> str:
        """Return the table under its title, as a heading. All texts are escaped."""
        title = f"<h2>{escape(self.title)}</h2>\n" if self.title else ""
        header = "".join(f"<th>{escape(name)}</th>" for name in self.header)
        rows = "\n".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in self.rows
        )
        return f"{title}<table>\n<tr>{header}</tr>\n{rows}\n</table>"

    def to_markdown(self, *, is_text: bool = False) -> str:
        """Return the table in Markdown, without its title.

        Args:
            is_text: Whether all columns hold text. Otherwise those after the first hold numbers, which are
                aligned to the right.
        """
        ruler = ["---", *(["---" if is_text else "---:"] * (len(self.header) - 1))]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (self.header, ruler, *self.rows))


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """Return an HTML table of names and texts under a title, for notebooks. All texts are escaped."""
    rows = (
        f"<tr><th style='text-align: left'>{escape(name)}</th>"
        f"<td style='text-align: left'>{escape(text)}</td></tr>"
        for name, text in facts.items()
    )
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"

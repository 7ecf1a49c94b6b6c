"""The card as a web page, next to the pictures that it shows."""

from costmodel.web_page import web_page


def render_page(title: str, card: str) -> str:
    """The page of a card.

    Args:
        title: What the browser shows as its title.
        card: The card in Markdown. HTML in it is shown, not followed.
    """
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    return web_page(title, markdown.render(card).rstrip())

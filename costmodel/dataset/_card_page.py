"""The card as a page for a browser, beside the pictures that it shows."""

from html import escape

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
</style>
</head>
<body>
{body}
</body>
</html>
"""


def render_page(title: str, card: str) -> str:
    """The page of a card.

    Args:
        title: What the browser shows as its title.
        card: The card in Markdown. HTML in it is shown, not followed.
    """
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    return _PAGE.format(title=escape(title), body=markdown.render(card).rstrip())

"""A web page without scripts and network access, self-contained except for pictures."""

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

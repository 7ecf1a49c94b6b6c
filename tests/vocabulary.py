"""The words that docs/vocabulary.md avoids, and where a text has them nevertheless."""

import re
from pathlib import Path

_PAGE = Path(__file__).parents[1] / "docs" / "vocabulary.md"


def avoided_words() -> set[str]:
    """Words that the vocabulary avoids where they stand alone, such as budget."""
    found = set(re.findall(r"[Bb]are \*(\w+)\*", _PAGE.read_text(encoding="utf-8")))
    assert found, "docs/vocabulary.md must name the words that are avoided"
    return found


def bare_words(text: str) -> list[str]:
    """Each avoided word of a text, with what is around it; not in code, nor in SM budget and budget gap."""
    plain = re.sub(r"`[^`]*`|\S*-\S*|<[^>]*>", "", " ".join(text.split()))
    words = "|".join(sorted(avoided_words()))
    return [
        plain[max(0, match.start() - 30) : match.end() + 30]
        for match in re.finditer(rf"(?i)(?<!SM )\b({words})s?\b(?! gap)", plain)
    ]

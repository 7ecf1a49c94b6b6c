"""Tables of best configs that vLLM 0.33.0 and SGLang 0.5.23 ship (Apache-2.0).

No latency is known of them: each row was the fastest of a sweep that nobody published.
"""

import lzma
from functools import cache
from pathlib import Path

import msgspec

from costmodel.serving._default_rule import Framework
from costmodel.serving._kernel import Kernel, Row

_FILE = Path(__file__).with_name("published.jsonl.xz")


class PublishedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table that a framework ships.

    Attributes:
        framework: Which.
        triton: Version that it was made with; empty where it is not told.
        device: Name of the GPU.
        kernel: What for; of experts, a table does not tell how many a token has, nor its elements.
        rows: The best config by number of tokens.
    """

    framework: Framework
    triton: str
    device: str
    kernel: Kernel
    rows: dict[int, Row]

    def row(self, tokens: int) -> Row:
        """Return the config that frameworks take of it: that of the nearest number of tokens."""
        return self.rows[min(self.rows, key=lambda known: abs(known - tokens))]


@cache
def published_tables() -> tuple[PublishedTable, ...]:
    """Return all tables."""
    decode = msgspec.json.Decoder(PublishedTable).decode
    with lzma.open(_FILE) as lines:
        return tuple(decode(line) for line in lines)

"""Tables of best configs for experts, as vLLM 0.33.0 and SGLang 0.5.23 ship them (Apache-2.0).

No latency is known of them: each row was the fastest of a sweep that nobody published.
"""

import lzma
from functools import cache
from pathlib import Path

import msgspec

from costmodel.serving._default_rule import Framework, Row
from costmodel.serving._kernel import BlockShape, ExpertProducts, Precision

_FILE = Path(__file__).with_name("published.jsonl.xz")


class PublishedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table that a framework ships.

    Attributes:
        framework: Which.
        triton: Version that it was made with; empty where it is not told.
        device: Name of the GPU.
        experts: As of ``ExpertProducts``, of which a table tells no more than these.
        width: Likewise.
        precision: Likewise.
        block: Likewise.
        rows: The best config by number of tokens.
    """

    framework: Framework
    triton: str
    device: str
    experts: int
    width: int
    precision: Precision
    block: BlockShape | None
    rows: dict[int, Row]

    @property
    def kernel(self) -> ExpertProducts:
        """What it is for."""
        return ExpertProducts(self.experts, 0, self.width, 0, self.precision, self.block)


@cache
def published_tables() -> tuple[PublishedTable, ...]:
    """Return all tables that are for both products of experts."""
    decode = msgspec.json.Decoder(PublishedTable).decode
    with lzma.open(_FILE) as lines:
        return tuple(decode(line) for line in lines)

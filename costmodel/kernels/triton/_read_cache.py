"""What was lowered and read before, in files: texts by what Triton compiles, facts also by the launch."""

import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from costmodel.files import write_whole
from costmodel.kernels._read_facts import ReadFacts
from costmodel.kernels.triton._lower import LoweredTexts, Lowering
from costmodel.kernels.triton._values import Argument, Array


@dataclass(frozen=True)
class ReadLaunch:
    """How a kernel is launched whose facts are read.

    Attributes:
        arguments: What it is called with, without what is compiled in, in order.
        grid: Programs along each axis.
        warps: Warps of a program.
    """

    arguments: Sequence[Argument]
    grid: tuple[int, int, int]
    warps: int


class ReadEntry(msgspec.Struct, frozen=True):
    """The files of one kernel and launch.

    Attributes:
        texts_file: Path of what it was lowered to; sizes that are not compiled in share it.
        facts_file: Path of what was read of it.
    """

    texts_file: str
    facts_file: str

    @property
    def is_lowered(self) -> bool:
        """Whether the kernel was lowered."""
        return Path(self.texts_file).is_file()

    def texts(self) -> LoweredTexts | None:
        """Return what the kernel was lowered to; None if nobody did."""
        if not self.is_lowered:
            return None
        return msgspec.json.decode(gzip.decompress(Path(self.texts_file).read_bytes()), type=LoweredTexts)

    def facts(self) -> ReadFacts | None:
        """Return what was read of the kernel; None if nobody did."""
        file = Path(self.facts_file)
        return msgspec.json.decode(file.read_bytes(), type=ReadFacts) if file.is_file() else None

    def keep_texts(self, texts: LoweredTexts) -> None:
        """Keep what the kernel was lowered to."""
        write_whole(Path(self.texts_file), gzip.compress(msgspec.json.encode(texts), 1, mtime=0))

    def keep_facts(self, facts: ReadFacts) -> None:
        """Keep what was read of it."""
        write_whole(Path(self.facts_file), msgspec.json.encode(facts))


@dataclass(frozen=True)
class ReadCache:
    """A folder of what was lowered and read.

    Attributes:
        folder: The folder; it is made with the first file.
    """

    folder: Path

    def entry(self, lowering: Lowering, launch: ReadLaunch) -> ReadEntry:
        """Return the files of a kernel and launch."""
        text = _hash_lowering(lowering)
        facts = _hash([text, _reader_hash(), _describe(launch)])
        return ReadEntry(str(self.folder / f"{text}.json.gz"), str(self.folder / f"{facts}.facts.json"))


def _hash_lowering(lowering: Lowering) -> str:
    """Hash what text depends on: source, compiler, target and specialisation."""
    import triton

    told = lowering.specialization
    return _hash(
        {
            "source": lowering.function.cache_key,
            "triton": triton.__version__,
            "target": lowering.architecture,
            "with_layouts": lowering.with_layouts,
            "signature": dict(told.signature),
            "constants": [[str(place), repr(value)] for place, value in told.constants.items()],
            "attributes": [[list(place), value] for place, value in told.attributes.items()],
            "options": sorted((name, repr(value)) for name, value in told.options.items()),
        }
    )


def _describe(launch: ReadLaunch) -> list[Any]:
    told = [["array", each.bytes] if isinstance(each, Array) else repr(each) for each in launch.arguments]
    return [told, launch.grid, launch.warps]


@cache
def _reader_hash() -> str:
    """Hash the code that reads: another version may read otherwise."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()

"""What was lowered and read before, in files: texts by what Triton compiles, facts also by the launch."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from costmodel.files import write_whole
from costmodel.kernels._read_facts import ReadFacts
from costmodel.kernels.triton._lower import LoweredTexts, Lowering
from costmodel.kernels.triton._values import Array, ReadLaunch

_FACTS = ".facts.json"
_T = TypeVar("_T")
# Options of the compiler that its passes look at, and its front end does not.
_BEHIND_FRONT = frozenset(("num_warps", "num_stages", "maxnreg"))


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

    def is_known(self, *, with_faults: bool) -> bool:
        """Whether all is kept that is wanted."""
        fault = self.fault() if with_faults else ""
        return bool(fault) or (fault == "" and Path(self.facts_file).is_file())

    def texts(self) -> LoweredTexts | None:
        """Return what the kernel was lowered to; None if nobody did."""
        return _kept(Path(self.texts_file), LoweredTexts, gzip.decompress)

    def facts(self) -> ReadFacts | None:
        """Return what was read of the kernel; None if nobody did."""
        return _kept(Path(self.facts_file), ReadFacts)

    def fault(self) -> str | None:
        """Return why the kernel cannot be right, empty if nothing says so; None if nobody looked."""
        return _kept(self._fault_file, str)

    def keep_fault(self, fault: str) -> None:
        """Keep why the kernel cannot be right."""
        write_whole(self._fault_file, msgspec.json.encode(fault), is_lasting=False)

    @property
    def _fault_file(self) -> Path:
        return Path(self.facts_file.removesuffix(_FACTS) + ".fault.json")

    def keep_texts(self, texts: LoweredTexts) -> None:
        """Keep what the kernel was lowered to."""
        packed = gzip.compress(msgspec.json.encode(texts), 1, mtime=0)
        write_whole(Path(self.texts_file), packed, is_lasting=False)

    def keep_facts(self, facts: ReadFacts) -> None:
        """Keep what was read of it."""
        write_whole(Path(self.facts_file), msgspec.json.encode(facts), is_lasting=False)


def _kept(file: Path, kind: type[_T], unpack: Callable[[bytes], bytes] = bytes) -> _T | None:
    """Return what a file holds; None if there is none, or what a machine left of it that lost its power."""
    try:
        return msgspec.json.decode(unpack(file.read_bytes()), type=kind)
    except (OSError, EOFError, zlib.error, msgspec.DecodeError):
        return None


@dataclass(frozen=True)
class ReadCache:
    """A folder of what was lowered and read.

    Attributes:
        folder: The folder; it is made with the first file.
    """

    folder: Path

    def entry(self, lowering: Lowering, launch: ReadLaunch) -> ReadEntry:
        """Return the files of a kernel and launch."""
        text = _hash(_describe_lowering(lowering))
        facts = _hash([text, reader_hash(), _describe(launch)])
        return ReadEntry(str(self.folder / f"{text}.json.gz"), str(self.folder / f"{facts}{_FACTS}"))


def hash_front(lowering: Lowering) -> str:
    """Hash what Triton's front end looks at."""
    return _hash(_describe_lowering(lowering, _BEHIND_FRONT))


def _describe_lowering(lowering: Lowering, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Tell what text depends on: source, compiler, target and specialisation."""
    import triton

    told = lowering.specialization
    options = sorted((name, repr(value)) for name, value in told.options.items() if name not in without)
    return {
        "source": lowering.function.cache_key,
        "triton": triton.__version__,
        "target": lowering.architecture,
        "with_layouts": lowering.with_layouts,
        "signature": dict(told.signature),
        "constants": [[str(place), repr(value)] for place, value in told.constants.items()],
        "attributes": [[list(place), value] for place, value in told.attributes.items()],
        "options": options,
    }


def _describe(launch: ReadLaunch) -> list[Any]:
    told = [["array", each.bytes] if isinstance(each, Array) else repr(each) for each in launch.arguments]
    return [told, launch.grid, launch.warps]


@cache
def reader_hash(folder: Path = Path(__file__).parent) -> str:
    """Hash the code that reads, or that of another folder: another version may read otherwise."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()

"""Facts read from Triton's IR: of a kernel's text, and of a config of a family."""

import gzip
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from costmodel.files import write_whole
from costmodel.kernels._read_facts import ReadFacts, Reading, describe_failure, mean_facts
from costmodel.kernels.triton._ir import Module, parse_ir
from costmodel.kernels.triton._layouts import WARP_THREADS, Layouts
from costmodel.kernels.triton._lower import LoweredTexts, Lowering, lower_kernel
from costmodel.kernels.triton._program_facts import ProgramCounter
from costmodel.kernels.triton._thread_facts import ThreadCounter
from costmodel.kernels.triton._values import Argument, Rules
from costmodel.kernels.triton._walk import Counter, Walk

# Places of the programs that stand for all, where the place decides what a program does.
_PLACES = (1 / 6, 1 / 2, 5 / 6)


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


def read_texts(texts: LoweredTexts, launch: ReadLaunch) -> ReadFacts:
    """Read the facts of a kernel from its text.

    Raises:
        ValueError: The text is none that is understood.
    """
    found = _walked(parse_ir(texts.ttir), launch, with_layouts=False)
    if texts.ttgir:
        found |= _walked(parse_ir(texts.ttgir), launch, with_layouts=True)
    if texts.shared_bytes >= 0:
        found["shared_bytes"] = texts.shared_bytes
    found |= {"programs": math.prod(launch.grid), "threads": WARP_THREADS * launch.warps}
    return ReadFacts(**{name: float(value) for name, value in found.items()})


def _walked(module: Module, launch: ReadLaunch, *, with_layouts: bool) -> dict[str, float]:
    """Count one program, or the mean of several where its place decides what it does."""
    found = []
    for place in (_PLACES[1], _PLACES[0], _PLACES[2]):
        x, y, z = (min(size - 1, int(size * place)) for size in launch.grid)
        counter: Counter = ProgramCounter(launch.warps)
        if with_layouts:
            counter = ThreadCounter(Layouts(module.layouts, launch.warps))
        rules = Rules(launch.grid, (x, y, z), follows_tensors=not with_layouts)
        walk = Walk(module, launch.arguments, rules, counter)
        walk.run()
        found.append(counter.facts(walk))
        if not walk.depends_on_program or math.prod(launch.grid) == 1:
            break
    return mean_facts(found)


def read_kernel(lowering: Lowering, launch: ReadLaunch, cache: Path | None = None) -> Reading:
    """Lower a kernel, unless its text is in the cache, and read its facts. What fails becomes a note.

    Args:
        lowering: What is lowered.
        launch: How it is launched.
        cache: Folder of texts; equal specialisations share one, whatever the sizes. None keeps none.
    """
    try:
        texts = lower_kernel(lowering) if cache is None else _cached(lowering, cache)
        return Reading(read_texts(texts, launch))
    except Exception as error:  # noqa: BLE001 (of Triton, or a text unlike any known: the kernel stays unread)
        return Reading(note=describe_failure(error))


def cached_text(lowering: Lowering, cache: Path) -> Path:
    """Return the file that keeps the text of a kernel."""
    return cache / f"{_key(lowering)}.json.gz"


def write_text(file: Path, texts: LoweredTexts) -> None:
    """Keep the text of a kernel."""
    write_whole(file, gzip.compress(msgspec.json.encode(texts), 1, mtime=0))


def _cached(lowering: Lowering, cache: Path) -> LoweredTexts:
    file = cached_text(lowering, cache)
    if file.is_file():
        return msgspec.json.decode(gzip.decompress(file.read_bytes()), type=LoweredTexts)
    texts = lower_kernel(lowering)
    write_text(file, texts)
    return texts


def _key(lowering: Lowering) -> str:
    """Return what text depends on: source, compiler, target and specialisation."""
    import triton

    told = lowering.specialization
    key = {
        "source": lowering.function.cache_key,
        "triton": triton.__version__,
        "target": lowering.architecture,
        "with_layouts": lowering.with_layouts,
        "signature": dict(told.signature),
        "constants": [[str(place), repr(value)] for place, value in told.constants.items()],
        "attributes": [[list(place), value] for place, value in told.attributes.items()],
        "options": sorted((name, repr(value)) for name, value in told.options.items()),
    }
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()

"""Block sizes that an elementwise or reduction kernel of Inductor can have, and its compilation with them."""

import importlib.util
import random
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

# Where a candidate comes from: Inductor's first, others of its list, of its list for max-autotune, or drawn.
AHEAD, LISTED, MAX_AUTOTUNE, DRAWN = "first", "listed", "max-autotune", "drawn"
_WARPS = (1, 2, 4, 8, 16)
_BLOCKS = {"XBLOCK": "x", "YBLOCK": "y", "R0_BLOCK": "r0_"}
_LARGEST = {"XBLOCK": 4096, "YBLOCK": 1024, "R0_BLOCK": 8192}
_FEWEST, _MOST = 32, 16384  # elements of a block
_LEAST_OF_THREAD, _MOST_OF_THREAD = 0.5, 64
_MOST_OF_GRID = 65535  # in any dimension but the first


class Candidate(NamedTuple):
    """A config of a kernel.

    Attributes:
        blocks: By the names of the kernel's parameters.
        warps: Of a program.
        stages: Of its loops.
        origin: Where it comes from.
    """

    blocks: dict[str, int]
    warps: int
    stages: int
    origin: str

    def triton(self) -> Any:
        """Return it as Triton wants it."""
        from triton import Config

        return Config(dict(self.blocks), num_warps=self.warps, num_stages=self.stages)


@cache
def load_kernel(path: Path) -> Any:
    """Return the kernel of a file that Inductor wrote, with Inductor's configs."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    spec = importlib.util.spec_from_file_location(f"kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(each for each in vars(module).values() if isinstance(each, CachingAutotuner))


def compile_all(path: Path, candidates: Sequence[Candidate]) -> None:
    """Compile candidates, so that another process finds them in Triton's cache; it meets what fails again."""
    kernel = load_kernel(path)
    for each in candidates:
        try:
            kernel._precompile_config(each.triton())
        except Exception:  # noqa: BLE001 (see above)
            continue


def candidates_of(kernel: Any, most: int) -> list[Candidate]:
    """Return Inductor's configs for a kernel, its first one ahead, then others at random."""
    found: dict[tuple[Any, ...], Candidate] = {}
    for place, config in enumerate([*kernel.configs, *_for_max_autotune(kernel)]):
        origin = AHEAD if not place else LISTED if place < len(kernel.configs) else MAX_AUTOTUNE
        blocks = {name: each for name, each in config.kwargs.items() if name in kernel.fn.arg_names}
        key = (*sorted(blocks.items()), config.num_warps)
        found.setdefault(key, Candidate(blocks, config.num_warps, config.num_stages, origin))
    drawn = list(_possible(kernel))
    random.Random(sha256(kernel.fn.src.encode()).digest()).shuffle(drawn)
    for each in drawn:
        if len(found) >= most:
            break
        found.setdefault((*sorted(each.blocks.items()), each.warps), each)
    return list(found.values())


def _for_max_autotune(kernel: Any) -> list[Any]:
    """Inductor's list where it may time kernels."""
    from torch._inductor.runtime import triton_heuristics

    kind = kernel.heuristic_type.name.lower()
    meta = dict(kernel.inductor_meta) | {"max_autotune": True, "max_autotune_pointwise": True}
    hint = {"reduction_hint": meta["reduction_hint"]} if "reduction_hint" in meta else {}
    triton_meta = {**kernel.triton_meta, "device": kernel.device_props}
    try:
        made: list[Any] = getattr(triton_heuristics, kind)(
            dict(kernel.size_hints), triton_meta=triton_meta, inductor_meta=meta, return_configs=True, **hint
        )
    except Exception as error:  # noqa: BLE001 (told; the rest of the candidates is there)
        print(f"{kernel.fn.__name__}: no list for max-autotune: {error!r}"[:200], flush=True)
        return []
    return made


def _possible(kernel: Any) -> Iterator[Candidate]:
    names = [name for name in _BLOCKS if name in kernel.fn.arg_names]
    sizes = {name: int(kernel.size_hints.get(_BLOCKS[name], 1)) for name in names}
    fixed = 1  # elements of a row that a persistent reduction holds whole
    if kernel.heuristic_type.name.lower() == "persistent_reduction":
        fixed = int(kernel.size_hints["r0_"])
    for blocks in product(*(_powers(min(sizes[name], _LARGEST[name])) for name in names)):
        by_name, elements = dict(zip(names, blocks, strict=True)), fixed
        for each in blocks:
            elements *= each
        rows = sizes.get("YBLOCK", 1) / by_name.get("YBLOCK", 1)
        if not min(_FEWEST, fixed) <= elements <= _MOST or rows > _MOST_OF_GRID:
            continue
        for warps in _WARPS:
            if _LEAST_OF_THREAD <= elements / (32 * warps) <= _MOST_OF_THREAD:
                yield Candidate(by_name, warps, 1, DRAWN)


def _powers(most: int) -> list[int]:
    return [1 << i for i in range(max(1, most).bit_length())]

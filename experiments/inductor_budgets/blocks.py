"""Block sizes that an elementwise or reduction kernel of Inductor can have, and its compilation with them."""

import importlib.util
import random
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from costmodel.integrations.inductor._fused import possible_blocks, read_fused

# Where a candidate comes from: Inductor's first, others of its list, of its list for max-autotune, or drawn.
AHEAD, LISTED, MAX_AUTOTUNE, DRAWN = "first", "listed", "max-autotune", "drawn"


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


def candidates_of(path: Path, most: int) -> list[Candidate]:
    """Return Inductor's configs for the kernel of a file, its first one ahead, then others at random."""
    kernel, read = load_kernel(path), read_fused(path.read_text(encoding="utf-8"))
    found: dict[tuple[Any, ...], Candidate] = {}
    for place, config in enumerate([*kernel.configs, *_for_max_autotune(kernel)]):
        origin = AHEAD if not place else LISTED if place < len(kernel.configs) else MAX_AUTOTUNE
        blocks = {name: each for name, each in config.kwargs.items() if name in kernel.fn.arg_names}
        key = (*sorted(blocks.items()), config.num_warps)
        found.setdefault(key, Candidate(blocks, config.num_warps, config.num_stages, origin))
    drawn = []
    for blocks in possible_blocks(read) if read else []:
        sides = dict(zip(("XBLOCK", "YBLOCK", "R0_BLOCK"), blocks[:3], strict=True))
        chosen = {name: size for name, size in sides.items() if name in kernel.fn.arg_names}
        drawn.append(Candidate(chosen, blocks.warps, 1, DRAWN))
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

"""Workloads drawn at random: shapes of the catalogue, and others in the ranges of real networks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from costmodel.errors import CostModelError
from costmodel.records._operators import OPERATORS
from costmodel.records._workload import DTYPE_BYTES, Shape, Workload
from costmodel.workloads._catalogue import catalogue

# Shapes of one family that differ in no size by more than this factor are near-twins: one all but tells the
# other's best kernels.
NEAR = 1.25

# Sizes below are drawn evenly in their logarithm; of these shares a size is a multiple of 64, of 8, or any.
_MULTIPLES, _SHARES = (64, 8, 1), (0.4, 0.3, 0.3)
_FROM_NETWORKS = 0.4  # share of the draws whose shape is one of the catalogue
_FUSED = 0.75  # share of the products and convolutions that have an epilogue
_CHANNELS_LAST = "_nhwc"
# Kernels of more take 0.1 s and longer on a few SMs; those of less, no longer than their launch.
_MOST_FLOPS = {"float32": 4e9, "float16": 12e9}
_LEAST_BYTES, _MOST_BYTES = 1 << 16, 1 << 26
_MOST_DRAWS = 1000  # in a row that give nothing new, after which the ranges count as used up


class _Sizes(NamedTuple):
    """What random shapes of a family look like.

    Attributes:
        weight: How often the family is drawn, beside the others.
        ranges: Least and largest size of dimensions.
        choices: Of other dimensions, all sizes.
    """

    weight: float
    ranges: Mapping[str, tuple[int, int]]
    choices: Mapping[str, tuple[int, ...]]


_IMAGE = {"n": (1, 1, 2, 4, 8), "s": (1, 1, 2)}
_FAMILIES: Mapping[str, _Sizes] = {
    "matmul": _Sizes(0.30, {"m": (1, 4096), "n": (16, 16384), "k": (16, 8192)}, {}),
    "batch_matmul": _Sizes(0.16, {"b": (2, 256), "m": (1, 2048), "n": (16, 2048), "k": (16, 1024)}, {}),
    "conv2d": _Sizes(
        0.26,
        {"c": (3, 1024), "h": (7, 224), "w": (7, 224), "o": (8, 1024)},
        {**_IMAGE, "k": (1, 1, 3, 3, 5, 7)},
    ),
    "depthwise_conv2d": _Sizes(
        0.10, {"c": (16, 1536), "h": (7, 112), "w": (7, 112)}, {**_IMAGE, "k": (3, 3, 5, 7)}
    ),
    "softmax": _Sizes(0.08, {"m": (1, 16384), "n": (32, 8192)}, {}),
    "layer_norm": _Sizes(0.10, {"m": (1, 8192), "n": (64, 8192)}, {}),
}


def sample_workloads(count: int, seed: int, *, apart_from: Sequence[Shape] = ()) -> list[Workload]:
    """Draw operators over kinds, epilogues, element types and shapes, no two of them near-twins.

    Some have a shape from the catalogue, the others a random shape in the ranges of networks, odd sizes
    included. Convolutions have channels last in float16, as Tensor Cores require. With the same seed, a
    longer list begins with the shorter one.

    Example:
        >>> sample_workloads(2, seed=2026)[1].name
        'layer_norm-m308-n779-float16'

    Args:
        count: Number of workloads.
        seed: Seed.
        apart_from: Shapes that no workload may have or be near to, such as those reserved for blind tests or
            measured elsewhere. A size that such a shape does not name matches any value.

    Raises:
        CostModelError: If there are not this many.
    """
    found: list[Workload] = []
    avoided = list(apart_from)
    draws = _draws(np.random.default_rng(seed))
    for _ in range(count):
        tried = islice(draws, _MOST_DRAWS)
        new = (each for each in tried if not any(shape.is_near(each.shape, NEAR) for shape in avoided))
        workload = next(new, None)
        if workload is None:
            raise CostModelError(
                f"There must be {count:,} workloads that are no near-twins of each other or of what they are "
                f"kept apart from, but {len(found):,} were found. Ask for fewer."
            )
        avoided.append(workload.shape)
        found.append(workload)
    return found


def _draws(rng: np.random.Generator) -> Iterator[Workload]:
    """Workloads of sizes that can be measured, without end."""
    known = _shapes_of_networks()
    weights = np.array([sizes.weight for sizes in _FAMILIES.values()])
    while True:
        family = list(_FAMILIES)[int(rng.choice(len(weights), p=weights / weights.sum()))]
        shapes = known[family]
        if rng.random() < _FROM_NETWORKS:
            shape = shapes[int(rng.integers(len(shapes)))]
        else:
            shape = _random_shape(family, rng)
        workload = _operator(shape, rng)
        if _is_measurable(workload):
            yield workload


def _shapes_of_networks() -> dict[str, list[Shape]]:
    """Each shape of the catalogue once, by family."""
    shapes = {entry.workload.shape.name: entry.workload.shape for entry in catalogue()}
    return {family: [s for s in shapes.values() if s.family == family] for family in _FAMILIES}


def _random_shape(family: str, rng: np.random.Generator) -> Shape:
    """Any shape of a family in the ranges of networks; three of four images are square."""
    _, ranges, choices = _FAMILIES[family]
    drawn = {dim: _size(*bounds, rng) for dim, bounds in ranges.items()}
    drawn |= {dim: int(rng.choice(sizes)) for dim, sizes in choices.items()}
    if "w" in drawn and rng.random() < 0.75:
        drawn["w"] = drawn["h"]
    return Shape(family, {dim: drawn[dim] for dim in OPERATORS[family].dims})


def _size(low: int, high: int, rng: np.random.Generator) -> int:
    """A size in a range, even in its logarithm, rounded to a multiple where it is one at least."""
    size = math.exp(rng.uniform(math.log(low), math.log(high)))
    multiple = int(rng.choice(_MULTIPLES, p=_SHARES))
    return round(size / multiple) * multiple if size >= multiple else round(size)


def _operator(shape: Shape, rng: np.random.Generator) -> Workload:
    """An operator of a shape: its type, its variant, and an epilogue or none."""
    dtype = list(DTYPE_BYTES)[int(rng.integers(len(DTYPE_BYTES)))]
    anchor = str(rng.choice(_variants(shape.family, dtype)))
    fused = [kind for kind, operator in OPERATORS.items() if operator.anchor == anchor and operator.epilogue]
    is_fused = rng.random() < _FUSED and fused
    return Workload(str(rng.choice(fused)) if is_fused else anchor, shape.dims, dtype)


def _variants(family: str, dtype: str) -> list[str]:
    """The anchors of a family; of those that differ in layout, the one that networks of this type have."""
    names = [
        kind for kind, operator in OPERATORS.items() if operator.family == family and kind == operator.anchor
    ]
    if f"{family}{_CHANNELS_LAST}" not in names:
        return names
    return [name for name in names if name.endswith(_CHANNELS_LAST) == (dtype == "float16")]


def _is_measurable(workload: Workload) -> bool:
    """Whether it takes neither no time nor too long, and its arrays are neither tiny nor huge."""
    within = _LEAST_BYTES <= workload.min_bytes <= _MOST_BYTES
    return within and workload.flops <= _MOST_FLOPS[workload.dtype]

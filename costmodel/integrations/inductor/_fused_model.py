"""A model that chooses blocks of elementwise and reduction kernels."""

from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.files import replacing
from costmodel.integrations.inductor._fused import (
    COLUMNS,
    Blocks,
    FusedKernel,
    fused_columns,
    possible_blocks,
)
from costmodel.integrations.inductor._models import TWINS
from costmodel.learners._complete_trees import walk_trees
from costmodel.reading import read_arrays, refusing

FITTED = Path(__file__).with_name("fused.npz")
_MAKE_IT = "Make it with experiments/inductor_budgets/fit_blocks.py."


@dataclass(frozen=True, eq=False)
class FusedModel:
    """Trees that rank blocks of a kernel on a number of SMs.

    Attributes:
        devices: ``(d,)`` names of the GPUs that it has learned from.
        splits: Trees, see ``walk_trees``, over ``COLUMNS``.
        thresholds: Likewise.
        leaves: Likewise.
    """

    devices: NDArray[Any]
    splits: NDArray[Any]
    thresholds: NDArray[Any]
    leaves: NDArray[Any]

    def __post_init__(self) -> None:
        """Check that the arrays fit one another.

        Raises:
            CostModelError: They do not.
        """
        trees, nodes = self.splits.shape
        fits = (
            self.thresholds.shape == (trees, nodes)
            and self.leaves.shape == (trees, nodes + 1)
            and (nodes + 1) & nodes == 0
            and self.splits.dtype.kind == "u"
            and (trees == 0 or int(self.splits.max()) < len(COLUMNS))
        )
        if not fits or not all(np.isfinite(each).all() for each in (self.thresholds, self.leaves)):
            raise CostModelError(
                f"The arrays of a model of blocks must fit one another, but do not. {_MAKE_IT}"
            )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a model from a file, which can run nothing.

        Raises:
            CostModelError: The file is none.
        """
        what = "a model of blocks"
        arrays = read_arrays(path, cls.__dataclass_fields__, what, remedy=_MAKE_IT)
        with refusing(path, what, _MAKE_IT):
            return cls(**arrays)

    def save(self, path: Path) -> None:
        """Write the model to a file; the same arrays give the same bytes."""
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **{name: getattr(self, name) for name in self.__dataclass_fields__})

    @cached_property
    def identity(self) -> str:
        """Changes whenever choices do; part of the keys of Inductor's caches."""
        arrays = (self.splits, self.thresholds, self.leaves)
        return sha256(b"".join(each.tobytes() for each in arrays)).hexdigest()[:12]

    def knows(self, device: str) -> bool:
        """Whether it has learned from this GPU, or from its twin."""
        return device in self.devices or (device in TWINS and bool({*TWINS} & {*self.devices.tolist()}))

    def choose(self, kernel: FusedKernel, sms: int, most: int) -> list[Blocks]:
        """Return the blocks that should be fastest on a number of SMs, the best first."""
        blocks = possible_blocks(kernel)
        if not blocks:
            return []
        score = walk_trees(fused_columns(kernel, blocks, sms), self.splits, self.thresholds, self.leaves)
        return [blocks[i] for i in np.argsort(score, kind="stable")[:most]]


@cache
def shipped_blocks() -> FusedModel:
    """Return the model that comes with the package."""
    return FusedModel.load(FITTED)

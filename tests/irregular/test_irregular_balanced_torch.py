"""Pruned layers in the formats of PyTorch, on the CPU."""

from typing import Any

import numpy as np
import pytest

from costmodel.errors import InvalidConfigError
from costmodel.irregular import Pattern
from costmodel.irregular._torch_formats import torch_formats, torch_linear
from costmodel.irregular.balanced import random_layer

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:Sparse (CSR|BSR) tensor support is in beta:UserWarning"),
    pytest.mark.white_box,
]


def tensors_of(pattern: Pattern) -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    layer = random_layer(64, 96, pattern, np.float32, np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((5, 96)).astype(np.float32)
    arrays = {"x": x, "W": layer.unpack(), "values": layer.values, "indices": layer.indices}
    arrays |= {"metadata": np.zeros(1, np.uint32), "y": np.zeros((5, 64), np.float32)}
    return {name: torch.from_numpy(array).flatten() for name, array in arrays.items()}


@pytest.mark.parametrize(
    ("pattern", "formats"),
    [
        (Pattern(0.75, block=8), {"dense", "csr"}),
        (Pattern(0.75, block=8, vector=32), {"dense", "csr"}),
        (Pattern(0.5, block=96, vector=16, group=16), {"dense", "csr", "bsr"}),
        (Pattern(0.7, block=96, vector=32, group=32), {"dense", "csr", "bsr"}),
    ],
)
def test_every_format_gives_the_product(pattern: Pattern, formats: set[str]) -> None:
    tensors = tensors_of(pattern)
    found = torch_formats(tensors)
    assert set(found) == {"x", *formats}
    expected = tensors["x"].reshape(5, 96).numpy() @ tensors["W"].reshape(64, 96).numpy().T
    for name in formats:
        output = torch_linear(found, name)
        assert output.is_contiguous()
        np.testing.assert_allclose(output.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("vector", "group", "side"), [(16, 32, 16), (32, 16, 16), (32, 32, 32)])
def test_blocks_are_the_largest_squares_that_are_not_filled_up(vector: int, group: int, side: int) -> None:
    found = torch_formats(tensors_of(Pattern(0.7, block=96, vector=vector, group=group)))
    assert tuple(found["bsr"].values().shape[1:]) == (side, side)


def test_a_format_that_does_not_hold_the_weights_says_so() -> None:
    found = torch_formats(tensors_of(Pattern(0.75, block=8)))
    with pytest.raises(InvalidConfigError, match="semi_structured"):
        torch_linear(found, "semi_structured")

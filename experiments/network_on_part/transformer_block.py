"""The network: one block of a transformer's encoder, float32, as Relax and as NumPy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Block:
    """A block of BERT (Devlin et al., NAACL 2019, arXiv:1810.04805), behind its embeddings.

    Attributes:
        tokens: Length of the sequence.
        size: Width of the hidden states; the inner layer is four times as wide.
        heads: Of attention.
    """

    tokens: int
    size: int
    heads: int

    def module(self) -> Any:
        """The Relax module whose function ``forward`` takes the embeddings, then the weights."""
        from tvm.relax.frontend import nn

        from costmodel.workloads import Bert

        network = Bert(self.size, self.heads, layers=1)
        network.to("float32")
        spec = {"x": nn.spec.Tensor((self.tokens, self.size), "float32")}
        return network.export_tvm({"forward": spec})[0]

    def inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Random embeddings and weights by parameter, in order; what they give is of order 1."""
        rng = np.random.default_rng(seed)
        found = {}
        for parameter in self.module()["forward"].params:
            shape = tuple(int(extent) for extent in parameter.ty.shape)
            is_weight = parameter.name.endswith("weight")
            scale = shape[0] ** -0.5 if is_weight else 1.0
            found[parameter.name] = (scale * rng.standard_normal(shape)).astype("float32")
        return found

    def reference(self, inputs: Arrays) -> np.ndarray:
        """The block's output by NumPy in float64."""
        return _Reference(self.heads, inputs).forward()


class _Reference:
    """The block written down once more, without TVM."""

    def __init__(self, heads: int, inputs: Arrays) -> None:
        self.heads = heads
        self.x = inputs["x"].astype("float64")
        self.weights = {name.removeprefix("layers.0."): a.astype("float64") for name, a in inputs.items()}

    def forward(self) -> np.ndarray:
        attended = self.linear("out", self.attend())
        x = self.layer_norm("norm_attention", attended + self.x)
        return self.layer_norm("norm", self.linear("down", gelu(self.linear("up", x))) + x)

    def attend(self) -> np.ndarray:
        query, key, value = (
            self.split_heads(self.linear(name, self.x)) for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (weights / weights.sum(-1, keepdims=True)) @ value
        return mixed.transpose(1, 0, 2).reshape(self.x.shape)

    def split_heads(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), self.heads, -1).transpose(1, 0, 2)

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def layer_norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * self.weights[f"{name}.gain"] + self.weights[f"{name}.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    """``x * Phi(x)`` (Hendrycks and Gimpel, 2016, arXiv:1606.08415)."""
    from scipy.special import ndtr

    return x * ndtr(x)

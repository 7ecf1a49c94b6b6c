"""Training of the multitask network by torch; its formula, which NumPy can compute too.

Notations:
    n: rows, d: features, p: platforms, e: numbers of an embedding, h: units of a layer.
    Weights are a dict of arrays: ``embedding`` ``(p + 1, e)``, of which row 0, the unknown platform, is zero;
    ``platform`` ``(e, h)``; ``weight i`` ``(d or h, h or 1)`` and ``bias i`` ``(h or 1,)``, i from 0.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import MissingExtraError

# Rows of one task that are compared with each other, and such groups in a step at most: 512 rows.
_GROUP, _GROUPS = 32, 16
# Share of the steps' groups whose platform is hidden.
_UNKNOWN_SHARE = 0.5
# Log latencies that differ by the target's standard deviation are told apart with probability 1/(1 + e^-4).
_SHARPNESS = 4.0


@dataclass(frozen=True)
class Examples:
    """Training rows in canonical order.

    Attributes:
        inputs: ``(n, d)`` standardised features.
        platforms: ``(n,)`` 1 to p.
        targets: ``(n,)`` standardised log latency above the bound.
        scores: ``(n,)`` best latency of the task / latency.
        tasks: ``(n,)`` ascending numbers.
    """

    inputs: FloatArray
    platforms: NDArray[np.intp]
    targets: FloatArray
    scores: FloatArray
    tasks: NDArray[np.intp]


@dataclass(frozen=True)
class Recipe:
    """Settings of building and training a network; see the settings of ``MultitaskNetwork``."""

    width: int
    layers: int
    embedding: int
    steps: int
    learning_rate: float
    weight_decay: float
    rank_weight: float
    seed: int


def forward(weights: Mapping[str, Any], inputs: Any, platforms: Any, activation: Callable[[Any], Any]) -> Any:
    """``(n,)`` outputs of a network, for arrays of NumPy or tensors of torch."""
    last = sum(name.startswith("bias") for name in weights) - 1
    known = weights["embedding"][platforms] @ weights["platform"]
    hidden = inputs @ weights["weight 0"] + weights["bias 0"] + known
    for i in range(1, last + 1):
        hidden = activation(hidden) @ weights[f"weight {i}"] + weights[f"bias {i}"]
    return hidden[:, 0]


def train_network(examples: Examples, recipe: Recipe) -> dict[str, FloatArray]:
    """Weights after ``recipe.steps`` steps of AdamW, whose rate rises for a tenth of them and then falls."""
    torch = import_torch()

    rng = np.random.default_rng(recipe.seed)
    first = _first_weights(examples.inputs.shape[1], int(examples.platforms.max()), recipe, rng)
    weights = {
        name: torch.tensor(value, dtype=torch.float32, requires_grad=True) for name, value in first.items()
    }
    optimiser = torch.optim.AdamW(weights.values(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.learning_rate, total_steps=recipe.steps + 1, pct_start=0.1
    )
    inputs, targets, scores = (
        torch.tensor(values, dtype=torch.float32)
        for values in (examples.inputs, examples.targets, examples.scores)
    )
    batches = _batches(examples.tasks, rng)
    for _ in range(recipe.steps):
        rows = next(batches)
        hidden = rng.random(len(rows)) < _UNKNOWN_SHARE
        platforms = np.where(hidden[:, None], 0, examples.platforms[rows]).ravel()
        outputs = forward(
            weights, inputs[rows.ravel()], torch.from_numpy(platforms), torch.nn.functional.silu
        )
        loss = _loss(outputs.reshape(rows.shape), targets[rows], scores[rows], recipe.rank_weight)
        optimiser.zero_grad()
        loss.backward()
        weights["embedding"].grad[0] = 0.0
        optimiser.step()
        schedule.step()
    return {name: value.detach().numpy().astype(np.float64) for name, value in weights.items()}


def _first_weights(
    features: int, platforms: int, recipe: Recipe, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """He's normal weights (arXiv:1502.01852), no bias, and platforms that are all unknown."""
    sizes = [features, *([recipe.width] * recipe.layers), 1]
    weights = {
        "embedding": np.zeros((platforms + 1, recipe.embedding)),
        "platform": rng.normal(size=(recipe.embedding, recipe.width)) / np.sqrt(recipe.embedding),
    }
    for i, (entering, leaving) in enumerate(pairwise(sizes)):
        weights[f"weight {i}"] = rng.normal(size=(entering, leaving)) * np.sqrt(2.0 / max(1, entering))
        weights[f"bias {i}"] = np.zeros(leaving)
    return weights


def _batches(tasks: NDArray[np.intp], rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
    """Endless ``(16, 32)`` positions of rows; those of one line are of one task, drawn without replacement.

    What is left of a task goes into a line of its own, filled up with other rows of the task. All rows have
    fewer lines where they are few.
    """
    starts = np.searchsorted(tasks, np.arange(1, tasks[-1] + 1))
    each = np.split(np.arange(len(tasks)), starts)
    waiting = np.empty((0, _GROUP), dtype=np.intp)
    size = min(_GROUPS, sum(-(-len(rows) // _GROUP) for rows in each))
    while True:
        if len(waiting) < size:
            lines = np.concatenate([_lines(rows, rng) for rows in each])
            waiting = np.concatenate([waiting, rng.permutation(lines)])
        yield waiting[:size]
        waiting = waiting[size:]


def _lines(rows: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """``(lines, 32)`` the rows of one task in random order, those of the last line repeated as needed."""
    shuffled = rng.permutation(rows)
    missing = -len(rows) % _GROUP
    return np.concatenate([shuffled, rng.choice(rows, missing)]).reshape(-1, _GROUP)


def _loss(outputs: Any, targets: Any, scores: Any, rank_weight: float) -> Any:
    """Huber's loss on sizes, and the logistic loss on the pairs of a line; all ``(lines, 32)`` tensors."""
    torch = import_torch()

    size = torch.nn.functional.huber_loss(outputs, targets)
    predicted, measured, weight = (
        values[:, :, None] - values[:, None, :] for values in (outputs, targets, scores)
    )
    weight = weight.abs()
    pairs = torch.nn.functional.softplus(-_SHARPNESS * predicted * measured.sign())
    return size + rank_weight * (weight * pairs).sum() / (weight.sum() + 1e-6)


def import_torch(what: str = "The learner network") -> Any:
    """Return the module.

    Args:
        what: What needs it.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError(what, "torch") from None
    return torch

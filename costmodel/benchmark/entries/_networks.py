"""Perceptrons for entries of others, trained by torch on one thread."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.learners._network_training import import_torch

_BATCH = 1024


def perceptron(sizes: list[int], *, normalised: bool = False) -> Any:
    """Return a perceptron of these sizes with rectified units, each layer normalised by batch if asked."""
    from torch import nn

    found: list[Any] = []
    for entering, leaving in pairwise(sizes):
        found += [nn.Linear(entering, leaving), nn.ReLU()]
        found += [nn.BatchNorm1d(leaving)] if normalised else []
    return nn.Sequential(*found[: -1 - normalised])


def train_perceptron(  # noqa: PLR0913 (what is trained, and how)
    network: Any,
    examples: Sequence[FloatArray],
    loss: Callable[..., Any],
    *,
    steps: int,
    rate: float,
    seed: int,
) -> None:
    """Train a network by Adam, whose rate rises and then falls.

    Args:
        network: From tensors ``(b, d)`` to tensors.
        examples: ``(n, d)`` inputs, and ``(n,)`` arrays that the loss needs.
        loss: Of the network's outputs for a batch and the batch's part of each of these arrays.
        steps: Batches, drawn at random.
        rate: Highest learning rate.
        seed: Seed of the draws.
    """
    import torch

    optimiser = torch.optim.Adam(network.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps + 1)
    rng = np.random.default_rng(seed)
    inputs, *others = (torch.tensor(values, dtype=torch.float32) for values in examples)
    network.train()
    for _ in range(steps):
        batch = torch.from_numpy(rng.integers(len(inputs), size=min(_BATCH, len(inputs))))
        optimiser.zero_grad()
        loss(network(inputs[batch]), *(values[batch] for values in others)).backward()
        optimiser.step()
        schedule.step()
    network.eval()


def answer_of(network: Any, inputs: FloatArray) -> Any:
    """Return what a trained network says of all rows, a tensor."""
    import torch

    with torch.no_grad():
        return network(torch.tensor(inputs, dtype=torch.float32))


@contextmanager
def one_thread(seed: int) -> Iterator[None]:
    """Let torch draw by this seed and add in one order; its state outside stays as it was.

    Raises:
        MissingExtraError: It is not installed.
    """
    torch = import_torch("This entry")
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)

"""Diode's network: a perceptron on sizes and parameters for log seconds of matrix products."""

from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries._networks import answer_of, one_thread, perceptron, train_perceptron
from costmodel.learners._base import Prediction
from costmodel.learners._scaler import Scaler

_SIZES = (128, 64, 32)  # the package's default
_RATE = 4e-3
_NUMBERS = ("log_m", "log_n", "log_k", "log_batch", "log_sms", "log_intensity")
_CONFIG = ("block_m", "block_n", "block_k", "stages", "warps", "group_m", "splits")
_CLASSES = ("dtype", "kind", "a_t", "b_t", "epilogue")


class Diode(BenchEntry):
    """Sizes, their ratios, operand type and parameters of the template; batches are normalised.

    Args:
        steps: Batches that the network is trained on.
    """

    name, seeds, is_extra = "diode", 2, True
    about = (
        "A perceptron of 128, 64 and 32 rectified units with batch normalisation on sizes, operand type, "
        "intensity and tile, for log seconds (torch-diode, PyPI, MIT). Trained here, as its wheel has no "
        "weights; also told the SMs, the layout and the back end, with larger batches and no dropout."
    )

    def __init__(self, steps: int = 2500) -> None:
        self.steps = steps

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only products."""
        return question.name == "products"

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Seconds, and minus their logarithm as score."""
        known, inputs = question.known, _inputs(question)
        log_s = np.log(question.latency_s[known])
        mean, deviation = float(log_s.mean()), float(log_s.std())
        with one_thread(seed):
            network = perceptron([inputs.shape[1], *_SIZES, 1], normalised=True)
            examples = inputs[known], (log_s - mean) / deviation
            train_perceptron(network, examples, _loss, steps=self.steps, rate=_RATE, seed=seed)
            found = answer_of(network, inputs[question.asked])[:, 0].numpy().astype(np.float64)
        log_s = mean + deviation * found
        return Prediction(-log_s, np.exp(log_s))


def _loss(output: Any, target: Any) -> Any:
    return (output[:, 0] - target).square().mean()


def _inputs(question: BenchQuestion) -> FloatArray:
    """``(n, d)`` standardised logs of sizes, their ratios and parameters, and a column for each class."""
    column = {name: question.column(f"product/{name}") for name in (*_NUMBERS, *_CONFIG, *_CLASSES)}
    ratios = [column["log_m"] - column["log_n"], column["log_m"] - column["log_k"]]
    numbers = [column[name] for name in (*_NUMBERS, *_CONFIG)]
    classes = [
        (column[name] == value).astype(np.float64)
        for name in _CLASSES
        for value in np.unique(column[name][question.known])
    ]
    X = np.column_stack([*numbers, *ratios, *classes])
    return Scaler().fit(X[question.known]).transform(X)


ENTRIES = (Diode(),)

"""GPTune's model: the task and a few others as mixtures of latent Gaussian processes."""

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries._coregionalisation import Processes, Settings
from costmodel.columns import Group, positions
from costmodel.learners._base import Prediction
from costmodel.learners._scaler import Scaler

_SOURCES = 3  # tasks that are joined with the asked one


class GPTune(BenchEntry):
    """Learns the asked task's few measurements together with the tasks that are described most alike."""

    name = "gptune"
    about = (
        "A linear model of coregionalisation of the task's measurements and three known tasks (GPTune, Liu "
        "et al., PPoPP 2021, section 3.1), which are those of the nearest sizes and SMs; two latent "
        "processes, one length for all parameters of each, where GPTune has one for each."
    )

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where something of the task was measured."""
        return question.measured.size > 0

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Posterior mean of the log latency."""
        near, log_s = _Near(question), np.full(len(question.asked), np.nan)
        for places, asked, measured in question.asked_tasks():
            rows, tasks = near.joined(measured, asked[0])
            values = np.log(question.latency_s[rows])
            fitted = Processes(near.Z[rows], values, tasks, Settings())
            log_s[places] = fitted.mean(near.Z[asked], 0)
        return Prediction(-log_s, np.exp(log_s))


class _Near:
    """Rows of a question as inputs of processes, and the tasks that are described most alike.

    Attributes:
        Z: ``(n, e)`` standardised parameters and launches.
    """

    def __init__(self, question: BenchQuestion) -> None:
        ran = np.isfinite(question.latency_s)
        self.known, self.ran = question.known[ran[question.known]], ran
        _, first, task = np.unique(question.tasks[self.known], return_index=True, return_inverse=True)
        self.task = task
        self.Z = _scaled(question, self.known, "config", "launch")
        self.places = _scaled(question, self.known[first], "workload", "platform")
        self.centres = self.places[self.known[first]]

    def joined(self, measured: Positions, asked: np.intp) -> tuple[Positions, NDArray[np.intp]]:
        """Return the rows to learn from, and the task of each: 0 is the asked one.

        Where none of its measurements ran, 0 is the task that is described most alike.
        """
        measured = measured[self.ran[measured]]
        distances = np.square(self.centres - self.places[asked]).sum(axis=1)
        sources = np.argsort(distances, kind="stable")[:_SOURCES]
        parts = [measured, *(self.known[self.task == source] for source in sources)]
        parts = [part for part in parts if part.size]
        tasks = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return np.concatenate(parts), tasks


def _scaled(question: BenchQuestion, fitted: Positions, *groups: Group) -> FloatArray:
    """``(n, d)`` columns of these groups, standardised by these rows."""
    X = question.features[:, np.array(positions(question.columns, *groups), np.intp)]
    return Scaler().fit(X[fitted]).transform(X)


ENTRIES = (GPTune(),)

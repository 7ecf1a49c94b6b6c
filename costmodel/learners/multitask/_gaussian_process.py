"""The multitask Gaussian process, for few measurements of few tasks."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position, positions
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._registry import register
from costmodel.learners._scaler import Scaler
from costmodel.learners._training import Training, check_features, first_rows, lower_bound, prepare
from costmodel.learners.multitask._coregionalisation import Coregionalisation, negative_log_likelihood
from costmodel.learners.sources import distinct_rows, source_weights

# Rows that are compared with the training rows at once.
_ROWS = 4096


@register("multitask-gp")
class MultitaskGaussianProcess(Learner):
    """Gaussian process on all tasks at once, each a mixture of a few latent processes.

    What is learned is log latency above a lower bound, less its mean over the task; see
    ``_coregionalisation`` for the model. Hyperparameters maximise the marginal likelihood (L-BFGS), and the
    posterior is exact, which is why only a part of many rows can be learned from: every task gives as many
    as the others, and of too many tasks some are drawn.

    A new task has the mean mixture, and the mean level, of the tasks that its columns resemble; nothing of
    its own. A task whose columns are those of exactly one source task is that task.

    On the tasks of half of the workloads of an H100 campaign, few rows of many tasks did better than many
    rows of 20 or 40, and two processes better than one.

    Args:
        task_columns: Positions of the columns that describe the task; the others are the inputs.
        baseline_column: Position of a column with log2 of a lower bound in seconds, see ``XGBoostLearner``.
        processes: Latent processes.
        rows: Rows to learn from at most; time grows with their cube.
        tasks: Tasks to learn from at most.
        bandwidth: Distance, in standard deviations of a task column, at which a task counts 0.61 of one at
            distance 0.
        sources: Source tasks that count, about, see ``source_weights``.
        iterations: Steps of L-BFGS at most.
        seed: Seed of what is drawn and of the first mixture.
    """

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        task_columns: tuple[int, ...],
        baseline_column: int | None = None,
        *,
        processes: int = 2,
        rows: int = 600,
        tasks: int = 100,
        bandwidth: float = 2.0,
        sources: int = 4,
        iterations: int = 60,
        seed: int = 0,
    ) -> None:
        self.task_columns = task_columns
        self.baseline_column = baseline_column
        self.processes = processes
        self.rows = rows
        self.tasks = tasks
        self.bandwidth = bandwidth
        self.sources = sources
        self.iterations = iterations
        self.seed = seed

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(positions(columns, "workload", "platform"), position(columns, "lower_bound"), seed=seed)

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Draw the rows, maximise the likelihood and condition on them."""
        training = prepare(X, y, task_ids)
        self.width_ = X.shape[1]
        above = training.clipped_log_latency - lower_bound(training.X, self.baseline_column)
        rows = self._drawn(training)
        kept, tasks = np.unique(training.tasks[rows], return_inverse=True)
        descriptors = training.X[first_rows(training)[kept]][:, self._is_task]
        self.task_scaler_ = Scaler().fit(descriptors)
        self.centres_ = self.task_scaler_.transform(descriptors)
        inputs = training.X[rows][:, ~self._is_task]
        self.scaler_ = Scaler().fit(inputs)
        self.inputs_, self.tasks_ = self.scaler_.transform(inputs), tasks
        self.levels_ = np.bincount(tasks, above[rows]) / np.bincount(tasks)
        residual = above[rows] - self.levels_[tasks]
        self.deviation_ = float(residual.std()) or 1.0
        self._condition(residual / self.deviation_)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Posterior mean of the latency, and -log latency as score."""
        check_features(X, self.width_)
        first, place = distinct_rows(X[:, self._is_task])
        weights, same = self._likeness(X[first][:, self._is_task])
        mixing = self.model_.mixing @ weights.T  # (q, p)
        residual = np.empty(len(X))
        for start in range(0, len(X), _ROWS):
            rows = slice(start, start + _ROWS)
            residual[rows] = self._residual(X[rows], mixing[:, place[rows]], same[place[rows]])
        log_latency = lower_bound(X, self.baseline_column) + (weights @ self.levels_)[place] + residual
        return Prediction(-log_latency, np.exp(log_latency))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "width": self.width_,
            "task_scaler": self.task_scaler_.state(),
            "centres": self.centres_,
            "scaler": self.scaler_.state(),
            "inputs": self.inputs_,
            "tasks": self.tasks_,
            "levels": self.levels_,
            "deviation": self.deviation_,
            "parameters": self.model_.pack(),
            "alpha": self.alpha_,
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.width_, self.centres_, self.levels_ = state["width"], state["centres"], state["levels"]
        self.task_scaler_ = Scaler().load_state(state["task_scaler"])
        self.scaler_ = Scaler().load_state(state["scaler"])
        self.inputs_, self.tasks_ = state["inputs"], state["tasks"]
        self.deviation_, self.alpha_ = state["deviation"], state["alpha"]
        self.model_ = Coregionalisation.unpack(state["parameters"], self.processes)
        return self

    @property
    def _is_task(self) -> NDArray[np.bool_]:
        return np.isin(np.arange(self.width_), self.task_columns)

    def _drawn(self, training: Training) -> NDArray[np.intp]:
        """Ascending positions of the rows to learn from: a fair share of each task."""
        rng = np.random.default_rng(self.seed)
        tasks = rng.permutation(training.tasks[-1] + 1)[: self.tasks]
        share = max(1, self.rows // len(tasks))
        each = (np.flatnonzero(training.tasks == task) for task in tasks)
        return np.sort(np.concatenate([rng.permutation(rows)[:share] for rows in each]))

    def _condition(self, values: FloatArray) -> None:
        """Learn the hyperparameters, and the weights of the rows that follow."""
        from scipy.linalg import cho_factor, cho_solve
        from scipy.optimize import minimize

        D = self._squared(self.inputs_)
        start = self._first_model().pack()
        # exp(+-8) of where they start, so that no step of the search leaves what can be inverted.
        bounds = [(value - 8.0, value + 8.0) for value in start]
        found = minimize(
            negative_log_likelihood,
            start,
            args=(self.processes, D, self.tasks_, values),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": self.iterations},
        )
        # What is stored gives the very same numbers.
        self.model_ = Coregionalisation.unpack(
            Coregionalisation.unpack(found.x, self.processes).pack(), self.processes
        )
        factor = cho_factor(self.model_.covariance(D, self.tasks_), lower=True)
        self.alpha_ = np.asarray(cho_solve(factor, values))

    def _first_model(self) -> Coregionalisation:
        """Where the search starts: tasks alike, processes of different lengths, a variance of about 1."""
        tasks, q = len(self.levels_), self.processes
        # Slightly apart, or processes and tasks would stay alike.
        jitter = 0.1 * np.random.default_rng(self.seed).normal(size=(q, tasks))
        return Coregionalisation(
            lengths=np.geomspace(0.5, 2.0, q) if q > 1 else np.ones(1),
            mixing=np.sqrt(0.7 / q) * (1.0 + jitter),
            own=np.full((q, tasks), 0.2 / q),
            noise=np.full(tasks, 0.1),
        )

    def _squared(self, Z: FloatArray) -> FloatArray:
        """``(n, m)`` mean squared difference to the training rows over the columns that vary."""
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(Z, self.inputs_, "sqeuclidean") / self.scaler_.varying)

    def _likeness(self, descriptors: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """``(p, t)`` weights of the source tasks, and whether a place is one of them."""
        rows = self.task_scaler_.transform(descriptors)
        differences = np.square(rows[:, None, :] - self.centres_).sum(axis=2)
        distances = np.sqrt(differences / max(1, descriptors.shape[1]))
        same = (distances == 0.0) & ((distances == 0.0).sum(axis=1, keepdims=True) == 1)
        weights = source_weights(distances, self.bandwidth, self.sources)
        return np.where(same.any(axis=1, keepdims=True), same, weights), same

    def _residual(self, X: FloatArray, mixing: FloatArray, same: NDArray[np.bool_]) -> FloatArray:
        """``(n,)`` posterior mean above the task's level, for rows with ``(q, n)`` mixtures."""
        correlations = self.model_.correlations(self._squared(self.scaler_.transform(X[:, ~self._is_task])))
        total = np.zeros(len(X))
        for q, correlation in enumerate(correlations):
            shared = np.outer(mixing[q], self.model_.mixing[q, self.tasks_])
            own = same[:, self.tasks_] * self.model_.own[q, self.tasks_]
            total += ((shared + own) * correlation * self.alpha_).sum(axis=1)
        return self.deviation_ * total

"""A new task as one of a family: near a mixture of source tasks, with a deviation that neighbours share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, positions
from costmodel.learners._base import Prediction
from costmodel.learners._curves import TaskCurves
from costmodel.learners._registry import register
from costmodel.learners._source_rules import source_weights
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import first_rows, prepare
from costmodel.transfer._base import Predictor, StorableModel, check_measured
from costmodel.transfer.models._alone import Proposal
from costmodel.transfer.models._calibrated import Calibrated, JointMixture, SeveralPriors

_BLOCK = 1024  # rows whose sources are compared at once, where only a variance is wanted


@register("source-mixture")
class SourceMixture(StorableModel):
    """Consensus of the sources most akin, and a Gaussian process around it, before and after measuring.

    Each source's log score at a config is that of ``TaskCurves``, with columns that weigh by what they
    change, and its weight that of ``WeightedConsensus``. The prior is the weighted mean over those sources
    whose ``kin_columns`` equal the task's, or over all if there are none: what the same architecture measured
    tells which config is best, and what others measured, how sure that is. The covariance of log latency is

    ``mixing^2 sum_j w_j e_j e_j' + deviation^2 exp(-h / length)``

    with e_j what source j says beyond the prior, and h the share of the config columns in which two configs
    differ. The first term moves the task towards or away from any source; the second is a diffusion kernel on
    categorical choices (Kondor and Lafferty, ICML 2002, section 4.4), for what no source shows.

    Once there are measurements, the prior may as well be the mean over all, or any one of the ``sources``
    nearest sources: each has a share, the mean of all being one half, which grows or shrinks with how well
    it foretold what was measured (``SeveralPriors``). And maybe no source tells anything: a process that
    knows configs alone (``JointMixture``) takes over as far as it foretells better, so that a search leaves
    sources that disappoint.

    A search measures first what those akin put first, and then ``listed`` configs from the top of the mean
    over all, a rule that is hard to beat: within these it is never more than one measurement behind it. If
    one source of another device is all that is known, it goes down that source's list throughout.

    It is a ``Posterior``: ``shortlist`` draws from it. How a search begins and when it leaves its sources was
    chosen on other kernels than it is reported on (experiments/source_choice). ``kin_columns`` and the
    covariance were chosen on the same 15 cases of the Kernel Tuner caches on which experiments/few_shot
    reports them: those figures are optimistic. For one choice take ``WeightedConsensus``.

    Args:
        task_columns: Positions of the columns that describe the task.
        kin_columns: Positions of the task columns that are equal among devices of one architecture; with none
            all sources are akin.
        device_columns: Positions of the task columns that tell devices apart; with none all are one.
        neighbours: Configs of each source task to average, see ``TaskCurves``.
        bandwidth: See ``WeightedConsensus``.
        sources: Source tasks that count, about, see ``source_weights``.
        config_columns: Positions of the columns that describe the config, see ``TaskCurves``.
        mixing: Standard deviation of the mixture, in those of what the sources say.
        deviation: Standard deviation of what no mixture explains, in log latency.
        length: Share of config columns that differ where the correlation is 0.37.
        noise: Standard deviation of a measurement, in log latency.
        listed: Configs that a search takes from the mean over all sources before it trusts any one more.
        doubt: Probability, before anything is measured, that no source tells anything.
        ignorance: Standard deviation of log latency among configs in that case.
    """

    def __init__(  # noqa: PLR0913 (settings, most with defaults)
        self,
        task_columns: tuple[int, ...],
        kin_columns: tuple[int, ...] = (),
        *,
        device_columns: tuple[int, ...] = (),
        neighbours: int = 3,
        bandwidth: float = 2.0,
        sources: int = 8,
        config_columns: tuple[int, ...] | None = None,
        mixing: float = 0.35,
        deviation: float = 0.12,
        length: float = 0.4,
        noise: float = 0.02,
        listed: int = 4,
        doubt: float = 0.2,
        ignorance: float = 0.4,
    ) -> None:
        self.task_columns = task_columns
        self.kin_columns = kin_columns
        self.device_columns = device_columns
        self.neighbours = neighbours
        self.bandwidth = bandwidth
        self.sources = sources
        self.config_columns = config_columns
        self.mixing = mixing
        self.deviation = deviation
        self.length = length
        self.noise = noise
        self.listed = listed
        self.doubt = doubt
        self.ignorance = ignorance

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(
            positions(columns, "workload", "platform"),
            positions(columns, tags=("architecture",)),
            device_columns=positions(columns, tags=("device",)),
            config_columns=positions(columns, "config", tags=("kernel",)),
        )

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Remember the source tasks, and which columns tell their configs apart."""
        training = prepare(X, y, task_ids)
        self.curves_ = self._curves().fit(training)
        self.kin_ = training.X[first_rows(training)][:, list(self.kin_columns)]
        self.choices_ = _varying(training.X, self._config_columns(X.shape[1]))
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Mean log score over the sources akin."""
        return Prediction(-self._prior(X))

    def std(self, X: FloatArray) -> FloatArray:
        """``(n,)`` standard deviation of a measurement's log latency, up to a constant."""
        blocks = np.split(X, np.arange(_BLOCK, len(X), _BLOCK))
        mixture = np.concatenate([np.square(self._beyond_prior(block)).sum(axis=1) for block in blocks])
        return np.sqrt(self.mixing**2 * mixture + self.deviation**2 + self.noise**2)

    def posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean ``(n,)`` and covariance ``(n, n)`` of log latencies, up to a constant that all share."""
        return self._prior(X), self._kernel(X, X)

    def adapt(self, X: FloatArray, y: FloatArray) -> JointMixture:
        """The prior, the mixture and the deviation that the measurements show, or that no source tells."""
        check_measured(X, y)
        likely = self._likely(X)

        def priors(X: FloatArray) -> FloatArray:
            says = -self.curves_.log_scores(X)[:, likely]
            return np.column_stack([self._prior(X), says.mean(axis=1), says])

        single = len(likely)
        share = np.array([0.25, 0.5, *[0.25 / single] * single])
        informed = SeveralPriors(priors, share, self._kernel, X, y, noise=self.noise)
        return JointMixture(
            informed, Calibrated(_nothing, self._alone, X, y, noise=self.noise), 1.0 - self.doubt
        )

    def propose(self, X: FloatArray, y: FloatArray) -> Predictor:
        """What those akin put first, then the mean over all for a while, then what ``adapt`` says.

        Nothing tells whether a lone source of another device misleads before its list has ended: whatever
        leaves it early is further behind it than ahead (experiments/source_choice).
        """
        if not y.size:
            return self
        adapted = self.adapt(X, y)
        if y.size > self.listed and not self._has_a_lone_source_elsewhere(X):
            return adapted
        return Proposal(_MeanOfSources(self.curves_, self._likely(X)), adapted)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"curves": self.curves_.state(), "kin": self.kin_, "choices": self.choices_}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.curves_ = self._curves().load_state(stored.part("curves"))
        tasks, kin = len(self.curves_.centres_), len(self.kin_columns)
        self.kin_ = stored.floats("kin", tasks, kin, missing=True, infinite=True)
        self.choices_ = stored.integers("choices", "c", low=0, below=self.curves_.width_)
        return self

    def _curves(self) -> TaskCurves:
        return TaskCurves(self.task_columns, self.neighbours, self.config_columns, by_importance=True)

    def _config_columns(self, width: int) -> NDArray[np.intp]:
        if self.config_columns is not None:
            return np.array(self.config_columns, dtype=np.intp)
        return np.flatnonzero(~np.isin(np.arange(width), self.task_columns))

    def _weights(self, X: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
        """Weights ``(p, t)`` of all sources and of those akin, and each row's place, ``(n,)``."""
        first, place = self.curves_.places(X)
        everyone = source_weights(self.curves_.distances_at(X[first]), self.bandwidth, self.sources)
        own = X[first][:, list(self.kin_columns)]
        akin = everyone * (own[:, None, :] == self.kin_[None]).all(axis=2)
        akin = np.where(akin.sum(axis=1, keepdims=True) > 0.0, akin, everyone)
        return everyone, akin / akin.sum(axis=1, keepdims=True), place

    def _likely(self, X: FloatArray) -> NDArray[np.intp]:
        """Positions of the ``sources`` nearest sources to the task of the first row, nearest first."""
        everyone = self._weights(X[:1])[0][0]
        likely = np.argsort(-everyone, kind="stable")[: self.sources]
        return np.asarray(likely[everyone[likely] > 0.0])

    def _has_a_lone_source_elsewhere(self, X: FloatArray) -> bool:
        """Whether one source is all that is known, and of another device than these rows."""
        if len(self.curves_.centres_) > 1:
            return False
        told = np.isin(sorted(self.task_columns), self.device_columns)
        source = self.curves_.task_scaler_.mean_[told]  # of one task, its columns
        return not np.array_equal(source, np.nan_to_num(X[0, sorted(self.task_columns)][told]))

    def _prior(self, X: FloatArray) -> FloatArray:
        _, akin, place = self._weights(X)
        return -self.curves_.mean_log_score(X, akin, place)

    def _beyond_prior(self, X: FloatArray) -> FloatArray:
        """``(n, t)`` what each source says beyond the prior, times the root of its weight."""
        everyone, akin, place = self._weights(X)
        mean = self.curves_.mean_log_score(X, akin, place)
        return np.asarray(np.sqrt(everyone)[place] * (self.curves_.log_scores(X) - mean[:, None]))

    def _kernel(self, A: FloatArray, B: FloatArray) -> FloatArray:
        mixture = self._beyond_prior(A) @ self._beyond_prior(B).T
        return np.asarray(self.mixing**2 * mixture + self.deviation**2 * self._alike(A, B))

    def _alone(self, A: FloatArray, B: FloatArray) -> FloatArray:
        return self.ignorance**2 * self._alike(A, B)

    def _alike(self, A: FloatArray, B: FloatArray) -> FloatArray:
        apart = _share_that_differs(A[:, self.choices_], B[:, self.choices_])
        return np.asarray(np.exp(-apart / self.length))


@dataclass(frozen=True)
class _MeanOfSources:
    """Scores configs by the mean of what some sources measured, whatever was measured here."""

    curves: TaskCurves
    sources: NDArray[np.intp]

    def predict(self, X: FloatArray) -> Prediction:
        """Mean log score over the sources."""
        return Prediction(self.curves.log_scores(X)[:, self.sources].mean(axis=1))


def _nothing(X: FloatArray) -> FloatArray:
    """``(n,)`` the same for all."""
    return np.zeros(len(X))


def _varying(X: FloatArray, columns: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of the columns that have several values where they are known."""
    known = ~np.isnan(X[:, columns])
    low = np.where(known, X[:, columns], np.inf).min(axis=0)
    high = np.where(known, X[:, columns], -np.inf).max(axis=0)
    return np.asarray(columns[low < high])


def _share_that_differs(A: FloatArray, B: FloatArray) -> FloatArray:
    """``(n, m)`` share of the columns known of a config in which another differs; two NaN are equal.

    Where two configs know different columns, the share is of the geometric mean of both numbers.
    """
    known = [np.maximum(1, (~np.isnan(rows)).sum(axis=1)) for rows in (A, B)]
    A, B = (np.where(np.isnan(rows), -np.inf, rows) for rows in (A, B))
    differing = np.zeros((len(A), len(B)))
    for a, b in zip(A.T, B.T, strict=True):
        differing += a[:, None] != b[None]
    return np.asarray(differing / np.sqrt(np.outer(*known)))

"""The multitask network: one trunk for all tasks, a learned place for each platform."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position, positions
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._network_training import Examples, Recipe, forward, train_network
from costmodel.learners._registry import register
from costmodel.learners._scaler import Scaler, distinct_rows
from costmodel.learners._stored_state import Length, StoredState
from costmodel.learners._training import check_features, lower_bound, prepare

# Rows that pass the network at once.
_ROWS = 8192


@register("network")
class MultitaskNetwork(Learner):
    """A perceptron for latency above a lower bound, trained on size and on order at once.

    The trunk is shared by all tasks. A platform enters twice: by its columns, as any feature does, and by an
    embedding that is learned for each platform of the training rows. In training an embedding is left out now
    and then (zero), as is that of a platform never seen in prediction: the trunk knows how to do without, so
    that a new device or SM budget needs no data. The loss is Huber's on the latency above the bound plus the
    logistic loss on pairs of the same task, weighted by the difference of their scores as LambdaRank weighs
    them (Burges, "From RankNet to LambdaRank to LambdaMART", MSR-TR-2010-82). One trunk for the tasks of many
    platforms: MTL-TLP (Zhai et al., ASPLOS 2023, arXiv:2211.03578).

    Training needs torch and is the same for the same seed, machine and number of threads; predictions need
    NumPy alone. Failures count as slow as ``LOWEST_LOG_SCORE`` says; the score is -log latency.

    The defaults were chosen on the tasks of half of the workloads of an H100 campaign, a sixth of them left
    out in turn. The loss on pairs brought 0.03 of Score@1, and at weight 1 it cost latency; three layers and
    half the width were worse, 1,000 steps and 256 units no better, and a decay of 0.1 cost latency.

    Args:
        platform_columns: Positions of the columns that tell platforms apart, whatever the workload.
        baseline_column: Position of a column with log2 of a lower bound in seconds, see ``XGBoostLearner``.
        width: Units of a layer.
        layers: Hidden layers.
        embedding: Numbers that a platform's embedding has.
        steps: Steps of the optimiser, each on 512 rows.
        learning_rate: Its highest rate.
        weight_decay: Its decay of weights (AdamW: Loshchilov and Hutter, arXiv:1711.05101).
        rank_weight: Weight of the loss on pairs; that on sizes weighs 1.
        members: Networks whose log latencies are averaged; they differ by seed.
        seed: Seed of the first weights and of all that is drawn.
    """

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        platform_columns: tuple[int, ...] = (),
        baseline_column: int | None = None,
        *,
        width: int = 128,
        layers: int = 2,
        embedding: int = 8,
        steps: int = 600,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.5,
        rank_weight: float = 0.3,
        members: int = 2,
        seed: int = 0,
    ) -> None:
        self.platform_columns = platform_columns
        self.baseline_column = baseline_column
        self.width = width
        self.layers = layers
        self.embedding = embedding
        self.steps = steps
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.rank_weight = rank_weight
        self.members = members
        self.seed = seed

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(positions(columns, tags=("machine",)), position(columns, "lower_bound"), seed=seed)

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Train the networks.

        Raises:
            MissingExtraError: torch is not installed.
        """
        training = prepare(X, y, task_ids)
        above = training.clipped_log_latency - lower_bound(training.X, self.baseline_column)
        self.scaler_ = Scaler().fit(training.X)
        self.mean_, self.scale_ = float(above.mean()), float(above.std()) or 1.0
        platforms = training.X[:, list(self.platform_columns)]
        first, platform = distinct_rows(platforms)
        self.platforms_ = platforms[first]
        examples = Examples(
            inputs=self.scaler_.transform(training.X),
            platforms=platform + 1,
            targets=(above - self.mean_) / self.scale_,
            scores=np.exp(training.log_score),
            tasks=training.tasks,
        )
        first_seed = self.seed * self.members  # so that runs of different seeds share no network
        self.networks_ = [train_network(examples, self._recipe(first_seed + i)) for i in range(self.members)]
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Latency, and -log latency as score."""
        check_features(X, self.scaler_.mean_.size)
        above = np.empty(len(X))
        for start in range(0, len(X), _ROWS):
            above[start : start + _ROWS] = self._above(X[start : start + _ROWS])
        log_latency = lower_bound(X, self.baseline_column) + self.mean_ + self.scale_ * above
        return Prediction(-log_latency, np.exp(log_latency))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "scaler": self.scaler_.state(),
            "mean": self.mean_,
            "scale": self.scale_,
            "platforms": self.platforms_,
            "networks": {str(i): network for i, network in enumerate(self.networks_)},
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.scaler_ = Scaler().load_state(state["scaler"])
        stored = StoredState(state)
        self.mean_, self.scale_ = stored.number("mean"), stored.number("scale")
        columns = len(self.platform_columns)
        self.platforms_ = stored.floats("platforms", "p", columns, missing=True, infinite=True)
        networks = stored.part("networks")
        lengths = {"d": self.scaler_.mean_.size, "p + 1": len(self.platforms_) + 1}
        self.networks_ = [self._checked(StoredState(networks[str(i)], lengths)) for i in range(self.members)]
        return self

    def _checked(self, stored: StoredState) -> dict[str, FloatArray]:
        """The weights of one network, see ``forward``."""
        units: list[Length] = ["d", *["h"] * self.layers, 1]
        weights = {
            "embedding": stored.floats("embedding", "p + 1", "e"),
            "platform": stored.floats("platform", "e", units[1]),
        }
        for i, (inputs, outputs) in enumerate(pairwise(units)):
            weights[f"weight {i}"] = stored.floats(f"weight {i}", inputs, outputs)
            weights[f"bias {i}"] = stored.floats(f"bias {i}", outputs)
        return weights

    def _recipe(self, seed: int) -> Recipe:
        return Recipe(
            width=self.width,
            layers=self.layers,
            embedding=self.embedding,
            steps=self.steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            rank_weight=self.rank_weight,
            seed=seed,
        )

    def _above(self, X: FloatArray) -> FloatArray:
        """``(n,)`` standardised log latency above the bound, mean of the networks."""
        inputs, platform = self.scaler_.transform(X), self._platform_of(X)
        outputs = [forward(network, inputs, platform, _silu) for network in self.networks_]
        return np.asarray(np.mean(outputs, axis=0))

    def _platform_of(self, X: FloatArray) -> NDArray[np.intp]:
        """``(n,)`` number of each row's platform in the embedding; 0 for one never seen."""
        platforms = X[:, list(self.platform_columns)]
        first, platform = distinct_rows(platforms)
        known = np.zeros(len(first), dtype=np.intp)
        for i, row in enumerate(platforms[first]):
            same = (self.platforms_ == row) | (np.isnan(self.platforms_) & np.isnan(row))
            found = np.flatnonzero(same.all(axis=1))
            known[i] = found[0] + 1 if found.size else 0
        return known[platform]


def _silu(values: FloatArray) -> FloatArray:
    return np.asarray(values / (1.0 + np.exp(-values)))

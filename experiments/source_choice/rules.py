"""What is compared: how a search begins with what sources measured, and when it leaves them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.learners._source_rules import WeightedConsensus
from costmodel.transfer import TransferModel
from costmodel.transfer._base import Predictor
from costmodel.transfer.models._source_mixture import SourceMixture

# A prior this unlikely never counts.
_NEVER = 1e-12


class PlainMean(WeightedConsensus, TransferModel):  # type: ignore[misc]
    """The list of the mean over sources, whatever is measured."""

    def adapt(self, X: FloatArray, y: FloatArray) -> Predictor:
        return self


class Hedged(SourceMixture):
    """Every other measurement is the next of the plain mean's list."""

    def propose(self, X: FloatArray, y: FloatArray) -> Predictor:
        self.listed = len(y) if len(y) % 2 else 0
        return super().propose(X, y)


@dataclass(frozen=True)
class Mixed:
    """Makes `source-mixture` with settings."""

    listed: int
    doubt: float
    kind: type[SourceMixture] = SourceMixture
    follows_one: bool = False

    def __call__(self, columns: Sequence[Column]) -> TransferModel:
        model = self.kind.for_columns(columns, 0)
        model.listed, model.doubt = self.listed, self.doubt
        if not self.follows_one:
            model.device_columns = ()
        return model


def plain_mean(columns: Sequence[Column]) -> TransferModel:
    made = SourceMixture.for_columns(columns, 0)
    return PlainMean(made.task_columns, bandwidth=1e6, config_columns=made.config_columns)


PLAIN = "plain mean"
RULES: Mapping[str, Callable[[Sequence[Column]], TransferModel]] = {
    PLAIN: plain_mean,
    "source-mixture as it was": Mixed(0, _NEVER),
    "every other from the mean": Mixed(0, _NEVER, kind=Hedged),
    "4 from the mean": Mixed(4, _NEVER),
    "8 from the mean": Mixed(8, _NEVER),
    "doubt .2": Mixed(0, 0.2),
    "4 from the mean, doubt .2": Mixed(4, 0.2),
    "8 from the mean, doubt .2": Mixed(8, 0.2),
    "4 from the mean, doubt .2, a lone GPU's list": Mixed(4, 0.2, follows_one=True),
}

"""Make unfitted models by name, for the columns of a feature table."""

from collections.abc import Callable, Mapping, Sequence

from costmodel.columns import Column
from costmodel.errors import CostModelError, did_you_mean
from costmodel.learners._base import Learner
from costmodel.learners._registry import learner_class, learner_names
from costmodel.transfer._base import StorableModel
from costmodel.transfer.models._conformal import Conformal
from costmodel.transfer.models._guarded import Guarded
from costmodel.transfer.models._residual import Residual

# Each takes a model, the columns and a seed, and returns the wrapped model.
WRAPPERS: Mapping[str, Callable[[StorableModel, Sequence[Column], int], StorableModel]] = {
    "intervals": Conformal.around,
    "guard": Guarded.around,
}


def make_model(name: str, columns: Sequence[Column], seed: int = 0) -> StorableModel:
    """Make an unfitted model for feature tables with these columns.

    Args:
        name: Name of a registered learner (see ``learner_names``), optionally followed by ``WRAPPERS``, each
            after a plus sign, such as ``kernel-ridge+guard+intervals``.
        columns: Columns of the feature table.
        seed: Seed of all random choices.

    Raises:
        CostModelError: The learner or a wrapper is unknown, or the learner's package cannot be loaded.
    """
    learner, *wrappers = name.split("+")
    if learner not in learner_names() or not set(wrappers) <= set(WRAPPERS):
        raise CostModelError(
            f"A learner must be one of {', '.join(learner_names())}, optionally followed by "
            f"{' or '.join('+' + wrapper for wrapper in WRAPPERS)}, but got {name!r}."
            + ("" if learner in learner_names() else did_you_mean(learner, learner_names()))
        )
    model = _as_model(learner, columns, seed)
    for wrapper in wrappers:
        model = WRAPPERS[wrapper](model, columns, seed)
    return model


def _as_model(name: str, columns: Sequence[Column], seed: int) -> StorableModel:
    """Make a transfer model from the name of a learner.

    Raises:
        CostModelError: The class registered by this name is neither a learner nor a transfer model.
    """
    made = learner_class(name).for_columns(columns, seed)
    if isinstance(made, Learner):
        return Residual(made)
    if isinstance(made, StorableModel):
        return made
    raise CostModelError(
        f"The learner {name!r} must be a Learner or StorableModel, but is of type {type(made).__name__}."
    )

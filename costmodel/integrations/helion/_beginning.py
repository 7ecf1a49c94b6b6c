"""Which configs a search measures before those that its sampler proposes."""

from collections.abc import Callable, Sequence
from itertools import chain, zip_longest

from costmodel.arrays import FloatArray
from costmodel.integrations.helion._config import distinct
from costmodel.records._candidate import Config

# Shares of the shortlist: a model that ranks all configs is left most of it.
_WITH_MODEL, _WITHOUT = 1 / 3, 1 / 2


def beginning(
    starts: Sequence[Config],
    carried: Sequence[Config],
    shortlist: int,
    scores: Callable[[Sequence[Config]], FloatArray] | None,
) -> list[Config]:
    """Choose among the configs that Helion's own searches begin with and those that did best elsewhere.

    The first of both are measured whatever a model says: what it learned from may be unlike what is asked.
    The others follow as the model ranks them, or take turns without one.

    Args:
        starts: Helion's, that which it runs untuned first.
        carried: From other sizes, SMs and devices, best first.
        shortlist: Configs that are measured in all. A third of them are chosen here, half without a model.
        scores: ``(n,)`` what a model tells of configs, higher is better; None without a model.
    """
    first = distinct([*starts[:1], *carried[:1]])
    turns = chain.from_iterable(zip_longest(starts[1:], carried[1:]))
    others = [each for each in distinct(turns) if each not in first]
    if scores is not None and others:
        others = [others[i] for i in (-scores(others)).argsort(kind="stable")]
    share = _WITHOUT if scores is None else _WITH_MODEL
    return [*first, *others][: max(1, round(share * shortlist))]

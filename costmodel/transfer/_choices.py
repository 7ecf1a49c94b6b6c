"""Which config somebody would choose, learned from tables that hold nothing but the chosen one.

Of what was not chosen nothing is known, not even that it was tried: such tables say nothing of latencies, and
no Score@k can be computed of them. What can be learned is the choice: what was chosen for like sizes, of like
types, on like devices. A model is judged by the rank that it gives to what the expert chose.

Notations:
    n choices; w (n,) how alike the call of each is to the one that is asked for, summing to 1. The score of a
    config is a mixture: the weight of its own choices, and the product over parameters of the weight of the
    choices with its value, so that a config that was rarely chosen as a whole can still come first.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.dataset.sources._source import ChosenConfig
from costmodel.errors import CostModelError
from costmodel.records._candidate import Decision
from costmodel.records._platform import Device
from costmodel.records._workload import Workload

# Distances at which a choice tells e**-0.5 of what one of the same call tells: doublings of a size; types;
# another vendor's runtime; factors of e of what a device has. Set by looking at best MoE configs, which the
# figures are of, too.
_DOUBLINGS, _OTHER_TYPES, _OTHER_RUNTIME, _DESCRIPTORS = 0.7, 0.5, 0.15, 1.0
_WHOLE, _SMOOTHING = 0.5, 0.02
_TOLD = (
    *("sms", "bandwidth_gb_s", "l2_bytes", "shared_bytes_per_sm", "registers_per_sm", "max_threads_per_sm"),
    "tensor_flops_per_sm_clock",
)


class RankedChoice(NamedTuple):
    """A config, or some of its parameters, and the weight of it among all that were ever chosen."""

    decisions: dict[str, Decision]
    weight: float


class ChoiceModel:
    """Choices that were made, to tell what would be chosen elsewhere.

    Example:
        >>> ChoiceModel().fit(choices).rank(workload, device, 3)[0].decisions  # doctest: +SKIP
        {'BLOCK_SIZE_M': 64, 'BLOCK_SIZE_N': 128, 'BLOCK_SIZE_K': 64}
    """

    def fit(self, choices: Sequence[ChosenConfig]) -> Self:
        """Remember choices, and forget earlier ones.

        Raises:
            CostModelError: There are none.
        """
        if not choices:
            raise CostModelError("A model of choices must have choices to learn from, but got none.")
        names = sorted({name for each in choices for name in each.candidate.config.decisions})
        self._taken = [_told(each.candidate.config.decisions, names) for each in choices]
        self._sizes, self._letters = _sizes([each.candidate.workload for each in choices])
        self._kinds = np.array([each.candidate.workload.kind for each in choices])
        self._runtimes = np.array([each.platform.device.kind for each in choices])
        self._devices = np.array([_describe(each.platform.device) for each in choices])
        return self

    def rank(
        self, workload: Workload, device: Device, count: int, names: Sequence[str] = ()
    ) -> list[RankedChoice]:
        """Return what would most likely be chosen, most likely first.

        Args:
            workload: What for.
            device: Where.
            count: At most how many.
            names: Parameters that matter, such as those of a tile. Default: all.
        """
        weights = self._weights(workload, device)
        taken = [tuple(pair for pair in each if not names or pair[0] in names) for each in self._taken]
        distinct = list(dict.fromkeys(taken))
        place = {each: i for i, each in enumerate(distinct)}
        whole = np.bincount([place[each] for each in taken], weights, len(distinct))
        parts = _product(distinct, taken, weights)
        score = _WHOLE * whole + (1 - _WHOLE) * parts / parts.sum()
        best = np.argsort(-score, kind="stable")[:count]
        return [RankedChoice(_chosen(distinct[i]), float(score[i])) for i in best]

    def _weights(self, workload: Workload, device: Device) -> FloatArray:
        asked = np.array([np.log2(workload.dims.get(letter, 1)) for letter in self._letters])
        far = (((self._sizes - asked) / _DOUBLINGS) ** 2).sum(axis=1)
        far += (self._kinds != workload.kind) / _OTHER_TYPES**2
        far += (self._runtimes != device.kind) / _OTHER_RUNTIME**2
        # What is not known of one of the two tells nothing of how far they are.
        apart = (self._devices - _describe(device)) / _DESCRIPTORS
        far += np.nan_to_num(apart**2).mean(axis=1)
        weights = np.exp(-0.5 * (far - far.min()))
        return np.asarray(weights / weights.sum())


# That a config lacks a parameter is a value of it, as all configs have as many factors in a product then.
Taken = tuple[tuple[str, Decision | None], ...]


def _told(decisions: Mapping[str, Decision], names: Sequence[str]) -> Taken:
    return tuple((name, decisions.get(name)) for name in names)


def _chosen(taken: Taken) -> dict[str, Decision]:
    return {name: value for name, value in taken if value is not None}


def _product(distinct: Sequence[Taken], taken: Sequence[Taken], weights: FloatArray) -> FloatArray:
    """``(c,)`` product over parameters of the weight of choices with the value of each config."""
    votes: dict[tuple[str, Decision | None], float] = {}
    for choice, weight in zip(taken, weights.tolist(), strict=True):
        for pair in choice:
            votes[pair] = votes.get(pair, 0.0) + weight
    return np.array([np.prod([votes[pair] + _SMOOTHING for pair in config]) for config in distinct])


def _sizes(workloads: Sequence[Workload]) -> tuple[FloatArray, list[str]]:
    letters = sorted({letter for each in workloads for letter in each.dims})
    return np.log2([[each.dims.get(letter, 1) for letter in letters] for each in workloads]), letters


def _describe(device: Device) -> FloatArray:
    values = np.array([float(getattr(device, name)) for name in _TOLD])
    return np.log(np.where(values > 0, values, np.nan))

"""NeuSight's form: a roofline over a utilisation, which a small network tells from the tile and the waves."""

from typing import Any

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries._networks import answer_of, one_thread, perceptron, train_perceptron
from costmodel.learners._base import Prediction
from costmodel.learners._scaler import Scaler

_WIDTH, _RATE = 128, 3e-3
_LEAST = 1e-6  # utilisation


class NeuSight(BenchEntry):
    """Seconds = roofline of whole waves / utilisation, whose two numbers a network tells.

    Args:
        steps: Batches that the network is trained on.
    """

    name, seeds, is_extra = "neusight", 2, True
    about = (
        "Roofline of the waves / utilisation, where utilisation = s(g) (1 - s(a) / waves), s is a sigmoid "
        "and a network tells g and a from the flops and bytes of a tile over the rates of an SM (NeuSight, "
        "Lee et al., ASPLOS 2025, section 4; needs torch). The paper has s(g) - s(a) / waves, which may fall "
        "below 0, and a network for each kind of operator, which this one is told; tiles and waves are the "
        "kernel's."
    )

    def __init__(self, steps: int = 1500) -> None:
        self.steps = steps

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where rooflines are known and nothing was measured: it has no way to adapt."""
        roofline = question.column("log2_roofline_s")
        return not question.measured.size and not np.isnan(roofline).any()

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Seconds, and minus their logarithm as score."""
        known = question.known[np.isfinite(question.latency_s[question.known])]
        inputs, ideal, waves = _inputs(question, known), _ideal_s(question), _waves(question)
        with one_thread(seed):
            network = perceptron([inputs.shape[1], _WIDTH, _WIDTH, _WIDTH, 2])
            examples = inputs[known], np.log(question.latency_s[known] / ideal[known]), waves[known]
            train_perceptron(network, examples, symmetric_error, steps=self.steps, rate=_RATE, seed=seed)
            found = answer_of(network, inputs[question.asked])
            busy = utilisation(found, found.new_tensor(waves[question.asked])).numpy()
        latency_s = ideal[question.asked] / busy.astype(np.float64)
        return Prediction(-np.log(latency_s), latency_s)


def symmetric_error(output: Any, log_ratio: Any, waves: Any) -> Any:
    """Return the mean of |predicted - measured| / (predicted + measured), which the paper minimises too.

    Args:
        output: ``(b, 2)`` outputs of the network.
        log_ratio: ``(b,)`` log of measured over ideal seconds.
        waves: ``(b,)`` waves.
    """
    return ((-utilisation(output, waves).log() - log_ratio).abs() / 2).tanh().mean()


def utilisation(output: Any, waves: Any) -> Any:
    """Return ``(b,)`` sigmoid(gamma) (1 - sigmoid(alpha) / waves) of ``(b, 2)`` outputs alpha and gamma."""
    alpha, gamma = output.sigmoid().unbind(1)
    return (gamma * (1.0 - alpha / waves)).clamp_min(_LEAST)


def _waves(question: BenchQuestion) -> FloatArray:
    return np.exp2(np.nan_to_num(question.column("log2_waves")))


def _ideal_s(question: BenchQuestion) -> FloatArray:
    """``(n,)`` seconds of the operations of whole waves at the roofline's rate."""
    idle = np.nan_to_num(question.column("log2_waves") - question.column("log2_fractional_waves"))
    extra = np.nan_to_num(question.column("log2_extra_flops"))
    return np.exp2(question.column("log2_roofline_s") + np.maximum(idle, 0.0) + extra)


def _inputs(question: BenchQuestion, known: Positions) -> FloatArray:
    """``(n, d)`` logs of a tile's flops and bytes over the rates of an SM, and the kind of operator."""
    column, sms = question.column, question.column("log2_sms_granted")
    tile_flops = column("log2_flops") + column("log2_extra_flops") - column("log2_blocks")
    tile_bytes = column("log2_global_bytes") - column("log2_blocks")
    whole_sms = sms - np.log2(column("device_share"))
    per_sm = [
        tile_flops - (column("log2_peak_flops") - sms),
        tile_bytes - (column("log2_bandwidth") - whole_sms),
        tile_bytes + column("log2_waves") - (column("log2_l2") - whole_sms),
    ]
    kinds = sorted(question.rows["kind"].iloc[known].unique())
    is_kind = [(question.rows["kind"] == kind).to_numpy(np.float64) for kind in kinds]
    values = np.nan_to_num(np.stack(per_sm, axis=1))
    scaled = Scaler().fit(values[known]).transform(values)
    return np.column_stack([scaled, *is_kind])


ENTRIES = (NeuSight(),)

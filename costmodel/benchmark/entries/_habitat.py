"""Habitat's wave scaling: a kernel that was timed on one number of SMs, on another."""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries._references import whole_gpu
from costmodel.learners._base import Prediction


class Habitat(BenchEntry):
    """Latency on the whole GPU x what the SMs are fewer, as far as memory does not bound the kernel."""

    name = "habitat"
    about = (
        "The latency on the whole GPU x (its SMs / those here) ^ (1 - g), where g falls with the operator's "
        "intensity from 1 to 0.5 at the roofline's ridge and on to 0; of a kernel of less than a wave, the "
        "blocks of the fullest SM in place of SMs (wave scaling of Habitat, Yu et al., USENIX ATC 2021). "
        "Kernels are asked on parts of their own GPU, whose bandwidth and clock stay."
    )

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where the whole GPU is known."""
        return question.name == "budgets"

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Seconds; what failed or was not timed on the whole GPU comes last."""
        whole, asked = whole_gpu(question), question.asked
        names = "log2_blocks", "log2_fractional_waves", "log2_intensity", "log2_peak_flops", "log2_bandwidth"
        blocks, waves, intensity, peak, bandwidth = (np.exp2(question.column(name)) for name in names)
        sms = question.rows["sms_granted"].to_numpy(np.float64)
        is_small = (waves[asked] < 1.0) & (waves[whole] < 1.0)
        fullest = np.ceil(np.rint(blocks) / sms)
        slower = np.where(is_small, fullest[asked] / fullest[whole], sms[whole] / sms[asked])
        bound = memory_bound((intensity * bandwidth / peak)[asked])
        latency_s = question.latency_s[whole] * slower ** (1.0 - bound)
        ran = np.isfinite(latency_s)
        latency_s[~ran] = latency_s[ran].max() * 2.0 if ran.any() else 1.0
        return Prediction(-latency_s, latency_s)


def memory_bound(intensity: FloatArray) -> FloatArray:
    """Return how far memory bounds kernels, 1 to 0, of their intensity over that of the roofline's ridge."""
    return np.where(intensity < 1.0, 1.0 - intensity / 2.0, 0.5 / np.maximum(intensity, 1.0))


ENTRIES = (Habitat(),)

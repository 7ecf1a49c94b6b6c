"""Rules for matrix products as entries: what libraries and formulas of others would choose."""

from collections.abc import Callable

import numpy as np

from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._pose_products import parse_product, product_kernels
from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries import _product_rules as rules
from costmodel.benchmark.entries._nearest_shape import NearestShape
from costmodel.benchmark.entries._product_rules import Rule
from costmodel.learners._base import Prediction


class ProductRule(BenchEntry):
    """A rule that scores the kernels of a product; those that it does not know come last.

    Args:
        name: Name of the entry.
        make: Makes the rule of what a question tells.
        about: See ``BenchEntry``.
        made_by: See ``BenchEntry``.
        is_extra: See ``BenchEntry``.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[BenchQuestion], Rule],
        about: str,
        *,
        made_by: str = "others",
        is_extra: bool = False,
    ) -> None:
        self.name, self.make, self.about = name, make, about
        self.made_by, self.is_extra = made_by, is_extra

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only products."""
        return question.name == "products"

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """The rule's scores, task by task."""
        rule, score = self.make(question), np.full(len(question.asked), np.nan)
        for places, asked, _ in question.asked_tasks():
            rows = question.rows.iloc[asked]
            product, sms = parse_product(rows["workload"].iloc[0]), int(rows["sms_granted"].iloc[0])
            score[places] = rule(product, product_kernels(list(rows["config"])), sms)
        is_known = ~np.isnan(score)
        lowest = score[is_known].min() if is_known.any() else 0.0
        return Prediction(np.where(is_known, score, lowest - 1.0))


def nearest_known(question: BenchQuestion) -> NearestShape:
    """Return the rule of the nearest shape, of what is known in a question."""
    known = question.rows.iloc[question.known].sort_values("latency_s", kind="stable")
    products, sms, ranked = [], [], []
    for _, task in known.groupby("task", sort=False):
        products.append(parse_product(task["workload"].iloc[0]))
        sms.append(int(task["sms_granted"].iloc[0]))
        ranked.append(product_kernels(list(task["config"])))
    return NearestShape(products, sms, ranked)


ENTRIES = (
    ProductRule(
        "torch-call",
        lambda _: rules.torch_call,
        "PyTorch's call, which does not know its SMs (recorded with torch 2.11).",
        made_by="reference",
    ),
    ProductRule(
        "cublaslt",
        lambda _: rules.cublaslt_untold,
        "The first algorithm of cuBLASLt's heuristics, which are not told the SMs (recorded; CUDA 13.0).",
    ),
    ProductRule(
        "cublaslt-told",
        lambda _: rules.cublaslt_told,
        "The same of heuristics that were told the SMs, by CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET.",
    ),
    ProductRule(
        "product-waves",
        lambda _: rules.wave_quantisation,
        "The least work of the fullest SM, padding and idle ends included (NVIDIA, Matrix Multiplication "
        "Background User's Guide); of equal ones the largest tile.",
        made_by="rule",
    ),
    ProductRule(
        "deepgemm",
        lambda _: rules.deepgemm,
        "Fewest waves, then the fullest last wave, the smaller tile and the most stages (DeepGEMM, MIT), "
        "among Triton's kernels, as its own are not in the data.",
    ),
    ProductRule(
        "origami",
        lambda _: rules.origami,
        "The cycles of Origami's formula (tritonBLAS, arXiv:2512.04226, algorithms 3 to 9; MIT) with the "
        "rates of an H200, among Triton's kernels with a program for each tile.",
    ),
    ProductRule(
        "helion",
        lambda _: rules.helion,
        "The config of Helion's formula for sm90 (github.com/pytorch/helion, BSD-3), or the one measured "
        "nearest to it; its fitted details are left out.",
    ),
    ProductRule(
        "nvmatmul",
        lambda _: rules.NvMatmulHeuristics(),
        "The least run time that nvidia-matmul-heuristics expects of Triton's kernels; it takes no number of "
        "SMs (NVIDIA's own licence; has to be installed).",
        is_extra=True,
    ),
    ProductRule(
        "nearest-shape",
        nearest_known,
        "The kernels that were best for the nearest shape of the same operands on as many SMs, as vLLM and "
        "others read tables of tuned configs (which they make for each device, whole).",
    ),
)

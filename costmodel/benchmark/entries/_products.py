"""Rules for matrix products as entries: what libraries and formulas of others would choose."""

import numpy as np

from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._pose_products import parse_product, product_kernels
from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries import _product_rules as rules
from costmodel.learners._base import Prediction


class ProductRule(BenchEntry):
    """A rule that scores the kernels of a product; those that it does not know come last.

    Args:
        name: Name of the entry.
        rule: The rule.
        about: See ``BenchEntry``.
        made_by: See ``BenchEntry``.
    """

    def __init__(self, name: str, rule: rules.Rule | None, about: str, made_by: str = "others") -> None:
        self.name, self.rule, self.about, self.made_by = name, rule, about, made_by

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only products."""
        return question.name == "products"

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """The rule's scores, task by task."""
        rule, score = self._rule(), np.full(len(question.asked), np.nan)
        for places, asked, _ in question.asked_tasks():
            rows = question.rows.iloc[asked]
            product, sms = parse_product(rows["workload"].iloc[0]), int(rows["sms_granted"].iloc[0])
            score[places] = rule(product, product_kernels(list(rows["config"])), sms)
        return Prediction(np.where(np.isnan(score), np.nanmin(score) - 1.0, score))

    def _rule(self) -> rules.Rule:
        assert self.rule is not None
        return self.rule


class NvMatmul(ProductRule):
    """The rule of a library, which has to be installed."""

    is_extra = True

    def _rule(self) -> rules.Rule:
        return rules.NvMatmulHeuristics()


ENTRIES = (
    ProductRule(
        "torch-call",
        rules.torch_call,
        "PyTorch's call, which does not know its SMs (recorded with torch 2.11).",
        made_by="reference",
    ),
    ProductRule(
        "cublaslt",
        rules.cublaslt_untold,
        "The first algorithm of cuBLASLt's heuristics, which are not told the SMs (recorded; CUDA 13.0).",
    ),
    ProductRule(
        "cublaslt-told",
        rules.cublaslt_told,
        "The same of heuristics that were told the SMs, by CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET.",
    ),
    ProductRule(
        "product-waves",
        rules.wave_quantisation,
        "The least work of the fullest SM, padding and idle ends included (NVIDIA, Matrix Multiplication "
        "Background User's Guide); of equal ones the largest tile.",
        made_by="rule",
    ),
    ProductRule(
        "deepgemm",
        rules.deepgemm,
        "Fewest waves, then the fullest last wave, the smaller tile and the most stages (DeepGEMM, MIT), "
        "among Triton's kernels, as its own are not in the data.",
    ),
    ProductRule(
        "origami",
        rules.origami,
        "The cycles of Origami's formula (tritonBLAS, arXiv:2512.04226, algorithms 3 to 9; MIT) with the "
        "rates of an H200, among Triton's kernels with a program for each tile.",
    ),
    ProductRule(
        "helion",
        rules.helion,
        "The config of Helion's formula for sm90 (github.com/pytorch/helion, BSD-3), or the one measured "
        "nearest to it; its fitted details are left out.",
    ),
    NvMatmul(
        "nvmatmul",
        None,
        "The least run time that nvidia-matmul-heuristics expects of Triton's kernels; it takes no number of "
        "SMs (NVIDIA's own licence; has to be installed).",
    ),
)

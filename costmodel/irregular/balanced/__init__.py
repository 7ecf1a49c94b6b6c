"""Balanced sparsity: every block of a row of weights has the same number of non-zeros.

No row has more work than another, and what a block reads of the inputs is bounded, so that kernels can be as
regular as dense ones. N:M sparsity is the case of small blocks.

References: Cao et al., "Balanced sparsity for efficient DNN inference on GPU", AAAI 2019, arXiv:1811.00206;
Lin et al., "Efficient GPU kernels for N:M-sparse weights in deep learning" (nmSPARSE), MLSys 2023; Mishra et
al., "Accelerating sparse deep neural networks", 2021, arXiv:2104.08378 (two of four).
"""

from costmodel.irregular.balanced._matrix import BalancedMatrix, pack
from costmodel.irregular.balanced._pattern import Pattern
from costmodel.irregular.balanced._prune import balanced_mask, prune
from costmodel.irregular.balanced._random import random_layer
from costmodel.irregular.balanced._torch_formats import torch_formats, torch_linear
from costmodel.irregular.balanced._two_of_four import two_of_four_metadata

__all__ = [
    "BalancedMatrix",
    "Pattern",
    "balanced_mask",
    "pack",
    "prune",
    "random_layer",
    "torch_formats",
    "torch_linear",
    "two_of_four_metadata",
]

"""What may be wrong with measurements, and where."""

from costmodel.dataset.checks._examine import Examination, Judge, examine, write_rejects
from costmodel.dataset.checks._finding import Finding, Severity
from costmodel.dataset.checks._rejects import SORTED_OUT_KINDS
from costmodel.dataset.checks._sieve import Sieve, Validation

__all__ = [
    "SORTED_OUT_KINDS",
    "Examination",
    "Finding",
    "Judge",
    "Severity",
    "Sieve",
    "Validation",
    "examine",
    "write_rejects",
]

"""Checks that find errors in measurements."""

from costmodel.dataset.checks._examine import Examination, Judge, check_not_empty, examine, write_rejects
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
    "check_not_empty",
    "examine",
    "write_rejects",
]

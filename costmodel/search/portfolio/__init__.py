"""Portfolios: a few kernels for many SM budgets, and dispatch tables."""

from costmodel.search.portfolio._dispatch import (
    DispatchRange,
    DispatchTable,
    dispatch_ranges,
    load_dispatch_table,
)
from costmodel.search.portfolio._portfolio import BudgetRange, best_portfolio, served_s, smallest_portfolio

__all__ = [
    "BudgetRange",
    "DispatchRange",
    "DispatchTable",
    "best_portfolio",
    "dispatch_ranges",
    "load_dispatch_table",
    "served_s",
    "smallest_portfolio",
]

"""Spaces of configs to search, one base class for all."""

from costmodel.spaces._base import DrawnConfigs, Param, SearchSpace
from costmodel.spaces._budgets import BudgetsSpace
from costmodel.spaces._declared import DeclaredSpace
from costmodel.spaces._pool import Pool
from costmodel.spaces._schedule import ScheduleSpace

__all__ = ["BudgetsSpace", "DeclaredSpace", "DrawnConfigs", "Param", "Pool", "ScheduleSpace", "SearchSpace"]

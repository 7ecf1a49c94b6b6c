"""A plan: a graph before and after what-if transforms, as tables, pictures, a trace and a page."""

from costmodel.planner.report._perfetto import save_perfetto
from costmodel.planner.report._plan import Plan, plan

__all__ = ["Plan", "plan", "save_perfetto"]

"""Plans over one or several quantities of a hypothetical device."""

from costmodel.planner.sweep._sweep_plan import SweptPlan, sweep_plan

__all__ = ["SweptPlan", "sweep_plan"]

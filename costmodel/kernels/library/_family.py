"""Families that say what a user of the library would call instead."""

from costmodel.kernels.triton import TritonFamily, TritonSource
from costmodel.records import Workload


def family_of(workload: Workload) -> TritonFamily | None:
    """The family that ships with calls for a workload of its own; None where there is none."""
    if not workload.is_foreign:
        return None
    families = (family for family in TritonSource.shipped() if family.library_calls)
    return next((family for family in families if family.computes(workload)), None)

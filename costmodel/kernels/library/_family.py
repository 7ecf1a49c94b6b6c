"""Families that say what a user of the library would call instead."""

from costmodel.kernels.cuda import CudaFamily, CudaSource
from costmodel.kernels.triton import TritonFamily, TritonSource
from costmodel.records import Workload

LibraryFamily = CudaFamily | TritonFamily


def family_of(workload: Workload) -> LibraryFamily | None:
    """The family that ships with calls for a workload of its own; None where there is none."""
    if not workload.is_foreign:
        return None
    families: tuple[LibraryFamily, ...] = (*CudaSource.shipped(), *TritonSource.shipped())
    return next((each for each in families if each.library_calls and each.computes(workload)), None)

"""Families that say what a user of the library would call instead."""

from costmodel.kernels.cuda._family import CudaFamily
from costmodel.kernels.cuda._source import CudaSource
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._workload import Workload

LibraryFamily = CudaFamily | TritonFamily

_SOURCES: tuple[FamilySource, ...] = (CudaSource(), TritonSource())


def family_of(workload: Workload) -> LibraryFamily | None:
    """The family that ships with calls for a workload of its own; None where there is none."""
    if not workload.is_foreign:
        return None
    families: tuple[LibraryFamily, ...] = (*CudaSource.shipped(), *TritonSource.shipped())
    return next((each for each in families if each.library_calls and each.computes(workload)), None)


def owner_of(workload: Workload) -> FamilySource:
    """The source that says what a workload takes and should give: that of its family; any of an operator."""
    return next((each for each in _SOURCES if each.makes(workload, "cuda")), _SOURCES[0])


def facts_of_call(workload: Workload, name: str) -> dict[str, int]:
    """What a call computes and moves, by field of ``KernelLaunch``; nothing where its family says nothing."""
    family = family_of(workload)
    return family.call_facts(workload, name) if isinstance(family, CudaFamily) else {}

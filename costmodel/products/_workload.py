"""Operators as products, and configs of kernel sources as kernels of them."""

from collections.abc import Mapping
from typing import Any

from costmodel.products._product import Kernel, Product
from costmodel.records._candidate import Config
from costmodel.records._workload import Workload

KNOWN_SOURCES = ("triton", "library")
_ANCHORS = ("matmul", "batch_matmul")
_TRITON = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps", "GROUP_M", "SPLIT_K")
_KNOWN = 4  # algorithms of cuBLASLt's list that were measured, from the first


def find_product(workload: Workload) -> Product | None:
    """Return the product that an operator is; None for others. Operands are stored by rows."""
    if workload.is_foreign or workload.is_program or workload.operator.anchor not in _ANCHORS:
        return None
    dims, epilogue = workload.dims, "_".join(workload.operator.epilogue)
    return Product(dims["m"], dims["n"], dims["k"], dims.get("b", 1), workload.dtype, "nn", epilogue)


def find_kernel(source: str, config: Config, sms: int, whole: int) -> Kernel | None:
    """Return a config as a kernel of a product; None for what the model of products does not know.

    Args:
        source: Kernel source of the config, one of ``KNOWN_SOURCES``.
        config: The config, of a space of an operator that is a product.
        sms: SMs that are granted.
        whole: SMs of the device.
    """
    chosen: Mapping[str, Any] = config.decisions
    if source == "library":
        return _library_kernel(chosen, sms, whole)
    if not {*_TRITON, "PROGRAMS"} <= chosen.keys() or chosen["PROGRAMS"] % sms:
        return None  # another's kernel, or one for other SMs
    kind = "persistent" if chosen["PROGRAMS"] else "split-k" if chosen["SPLIT_K"] > 1 else "plain"
    kernel = Kernel("triton", kind, *(int(chosen[name]) for name in _TRITON))
    return kernel._replace(programs_per_sm=int(chosen["PROGRAMS"]) // sms)


def _library_kernel(chosen: Mapping[str, Any], sms: int, whole: int) -> Kernel | None:
    if chosen["call"] != "cublaslt":
        return Kernel("torch") if chosen["call"] == "eager" else None
    kinds = {0: "", sms: "told" if sms < whole else ""}
    if chosen["sm_target"] not in kinds or chosen["algorithm"] >= _KNOWN:
        return None
    return Kernel("cublaslt", kinds[chosen["sm_target"]], position=int(chosen["algorithm"]))

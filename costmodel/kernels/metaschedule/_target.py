"""What TVM makes kernels for."""

from typing import Any

from costmodel.records._platform import TargetKind

# From Hopper on, code for exactly one architecture may use all of it (CUDA C++ Programming Guide,
# "Architecture-Specific Features").
_FIRST_SPECIFIC = 90


def make_target(kind: TargetKind, architecture: str = "sm_90") -> Any:
    """TVM target of the local device kind. Loads TVM.

    But for what CUDA compiles, it is Hopper's on every GPU, so that all have the same design spaces. Their
    limits hold on every GPU since Volta.

    Args:
        kind: Kind of device.
        architecture: Of a GPU, such as ``sm_90``.
    """
    import tvm

    if kind == "cpu":
        return tvm.target.Target({"kind": "llvm", "num-cores": _physical_cores()})
    suffix = "a" if int(architecture.removeprefix("sm_")) >= _FIRST_SPECIFIC else ""
    hopper = tvm.target.Target("nvidia/nvidia-h100").export()
    return tvm.target.Target({**hopper, "arch": architecture + suffix})


def _physical_cores() -> int:
    import psutil  # type: ignore[import-untyped]  # only CPU targets need it

    return psutil.cpu_count(logical=False) or 1

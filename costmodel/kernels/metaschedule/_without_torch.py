"""TVM without torch, in processes of this package."""

import sys

from costmodel.records._platform import TargetKind


def import_tvm_for(kind: TargetKind) -> None:
    """Import TVM in a process that uses it for one kind of device, for a CPU without torch.

    TVM imports torch wherever it is installed, to exchange tensors with it. In a process that exchanges none,
    it is over two thirds of the time: 4.2 instead of 1.2 s of processor time. Torch can be imported later;
    where it is there already, TVM takes it. For CUDA it stays: TVM's runtime needs ``libcudart.so.13``,
    which it may only find because torch has loaded it.
    """
    without = kind == "cpu" and "torch" not in sys.modules
    if without:
        sys.modules["torch"] = None  # type: ignore[assignment]  # what makes an import fail, as if it were absent
    try:
        import tvm  # noqa: F401
    finally:
        if without:
            del sys.modules["torch"]

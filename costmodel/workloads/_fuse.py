"""Relax's standard way from operators to kernels: legalise, classify, fuse."""

from collections import Counter
from typing import Any

from tvm import relax, topi, transform


def _softmax(builder: Any, call: Any) -> Any:
    """Softmax with sums in float32: a sum of many float16 exponentials would stop growing."""

    def softmax(x: Any) -> Any:
        if x.dtype == "float32":
            return topi.nn.softmax(x, axis=call.attrs.axis)
        return topi.cast(topi.nn.softmax(topi.cast(x, "float32"), axis=call.attrs.axis), x.dtype)

    return builder.call_te(softmax, call.args[0])


def fuse_operators(module: Any) -> Any:
    """The module with one TIR function a kernel, called by ``forward``."""
    passes = transform.Sequential(
        [
            relax.transform.LegalizeOps({"relax.nn.softmax": _softmax}),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )
    return passes(module)


def kernel_calls(module: Any) -> Counter[str]:
    """How often ``forward`` calls each TIR function of a fused module, by the function's name."""
    bindings = [binding for block in module["forward"].body.blocks for binding in block.bindings]
    calls = [binding.value for binding in bindings if isinstance(binding.value, relax.Call)]
    return Counter(call.args[0].name_hint for call in calls if call.op.name == "relax.call_tir")

"""What an epilogue costs each result once it is inlined into the kernel."""

from costmodel.records._workload import Workload

# (Operations, uses of the value, loads of an own operand) of each step, as ``spaces`` writes it. A step that
# uses its value twice computes all that is inlined into it twice: nothing is shared before code generation.
_STEPS = {
    "bias": (1, 1, 1),
    "add": (1, 1, 1),
    "mul": (1, 1, 1),
    "relu": (1, 1, 0),
    "relu6": (2, 1, 0),
    "gelu": (5, 2, 0),
    "silu": (4, 2, 0),
}


def epilogue_costs(workload: Workload) -> tuple[int, int, int]:
    """Operations, elements loaded from device memory, and uses of the anchor's result, for each result.

    Example:
        >>> epilogue_costs(Workload.parse("matmul_bias_gelu-m4-n4-k4"))
        (7, 2, 2)
    """
    flops, loads, uses = 0, 0, 1
    for step in workload.operator.epilogue:
        own_flops, repeats, own_loads = _STEPS[step]
        flops, loads, uses = repeats * flops + own_flops, repeats * loads + own_loads, repeats * uses
    return flops, loads, uses

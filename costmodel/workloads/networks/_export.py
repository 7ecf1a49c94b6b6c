"""From a network to its Relax module."""

from typing import Any

from tvm.relax.frontend import nn


def export_network(network: Any, dtype: str, **inputs: tuple[int, ...]) -> Any:
    """The Relax module of a network, whose function is ``forward``.

    Args:
        network: A ``Layer``.
        dtype: Element type of all its arrays.
        inputs: Shape of each argument of its ``forward``.
    """
    network.to(dtype)
    spec = {name: nn.spec.Tensor(shape, dtype) for name, shape in inputs.items()}
    module, _ = network.export_tvm({"forward": spec})
    return module

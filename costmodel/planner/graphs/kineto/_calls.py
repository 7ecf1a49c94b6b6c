"""What the names of calls of CUDA and HIP say."""

# Categories of events, as Kineto names them.
HOST = frozenset(("cpu_op", "cuda_runtime", "cuda_driver", "user_annotation"))
RUNTIME = frozenset(("cuda_runtime", "cuda_driver"))
DEVICE = frozenset(("kernel", "gpu_memcpy", "gpu_memset"))
WAITS = "cuda_sync"
ANNOTATION = "user_annotation"


def is_graph_launch(name: str) -> bool:
    """Whether a call launches a CUDA graph: many kernels share its correlation."""
    return "GraphLaunch" in name


def is_launch(name: str) -> bool:
    """Whether a call gives work to a stream, so that a kernel, copy or memset must have its correlation."""
    return "Launch" in name or "Memcpy" in name or "Memset" in name


def is_wait(name: str) -> bool:
    """Whether the host waits in a call until streams are done."""
    return "Synchronize" in name


def waits_for_all(name: str) -> bool:
    """Whether it waits for all streams."""
    return name.startswith(("cudaDevice", "cuCtx", "hipDevice", "hipCtx"))

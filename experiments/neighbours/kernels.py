"""The kernels that run beside each other: of all kinds, of three sources, in and beyond the L2 cache."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from costmodel.dataset import Dataset, find_dataset, load_dataset
from costmodel.errors import InvalidConfigError
from costmodel.kernels import KernelSource
from costmodel.records import Candidate, Config, Workload


class Kernel(NamedTuple):
    """A kernel to be measured.

    Attributes:
        source: Where it comes from.
        workload: What it computes.
        like: A recorded workload whose fastest config on 64 SMs it has; the first that its source offers
            where there is none, or where that does not fit.
    """

    source: str
    workload: str
    like: str = ""

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.source}:{self.workload}"


def _recorded(source: str, *workloads: str) -> list[Kernel]:
    return [Kernel(source, workload, workload) for workload in workloads]


# What streams through the device's memory: larger than the L2 cache of 50 MB, most of them several times.
STREAMING = [
    Kernel("triton", "softmax-m8192-n4096-float16", "softmax-m512-n8192-float16"),
    Kernel("triton", "rms_norm-m8192-n4096-float16", "rms_norm-m4096-n4096-float16"),
    Kernel("triton", "layer_norm-m4096-n8192-float16", "layer_norm-m256-n8192-float16"),
    Kernel("triton", "triton.cross_entropy-m512-n128256", "triton.cross_entropy-m64-n128256"),
    Kernel("triton", "triton.embedding-t32768-v50000-d1024", "triton.embedding-t4096-v30522-d1024"),
    Kernel("triton", "triton.rope-t4096-h64-d128", "triton.rope-t512-h64-d128"),
    Kernel("cuda", "cuda.transpose-m4096-n8192", "cuda.transpose-m4096-n2048"),
    Kernel("cuda", "cuda.reduction-m8192-n4096", "cuda.reduction-m2048-n2048"),
    Kernel("cuda", "cuda.histogram-n33554432-b256", "cuda.histogram-n4194304-b256"),
    *_recorded("cuda", "cuda.lif_update-n4194304-r1000"),
    *_recorded("cuda", "cuda.embedding_bag-r3000000-d32-b4096-l20-v4-h5-w44-x98-y214-z463"),
    Kernel("library", "softmax-m16384-n1024"),
    Kernel("library", "layer_norm-m8192-n2048"),
]
# Products whose weights stream.
OF_VECTORS = [
    *_recorded("triton", "triton.gated_mlp-m16-n11008-k4096", "matmul-m64-n11008-k4096-float16"),
    *_recorded("triton", "triton.attention-b32-q1-k4096-d128"),
    Kernel("library", "matmul-m16-n16384-k4096-float16"),
]
# What stays in the L2 cache.
CACHED = [
    *_recorded("triton", "softmax-m2048-n2048-float16", "layer_norm-m2048-n4096-float16"),
    *_recorded("triton", "rms_norm-m1024-n4096-float16"),
    *_recorded("cuda", "cuda.transpose-m1000-n1000"),
    *_recorded("cuda", "cuda.embedding_bag-r200000-d128-b2048-l80-v3-h1-w1-x2-y11-z101"),
    *_recorded("cuda", "cuda.spike_delivery-n100000-c100-r10000-d4"),
    *_recorded("cuda", "cuda.histogram-n1048576-b1024"),
    Kernel("library", "softmax-m4096-n1024"),
]
# What computes on Tensor Cores.
ON_TENSOR_CORES = [
    *_recorded("triton", "matmul-m2048-n4096-k1024-float16", "matmul_bias_gelu-m512-n4096-k1024-float16"),
    *_recorded("triton", "triton.attention-b8-q2048-k2048-d128"),
    *_recorded("triton", "triton.fused_moe-t2048-e16-k4-n512-d512-s1"),
    *_recorded("cuda", "matmul-m1024-n1024-k1024-float16", "matmul-m512-n1024-k1024-float16"),
    Kernel("library", "matmul-m4096-n4096-k2048-float16"),
    Kernel("library", "matmul_bias_gelu-m2048-n4096-k1024-float16"),
    Kernel("library", "batch_matmul-b64-m512-n512-k64-float16"),
]
# What computes on CUDA cores, or waits.
ON_CUDA_CORES = [
    *_recorded("cuda", "cuda.nbody-n4096", "cuda.conv2d-w1024-h1024", "cuda.gemm-m1024-n1024-k1024"),
    *_recorded("cuda", "matmul-m128-n768-k3072"),
    Kernel("library", "matmul-m1024-n1024-k1024"),
    Kernel("library", "conv2d-n8-c256-h14-w14-o256-k3-s1"),
    *_recorded("triton", "layer_norm-m128-n768-float16"),
    *_recorded("cuda", "cuda.spike_delivery-n10000-c100-r1000-d1"),
]
KERNELS = [*STREAMING, *OF_VECTORS, *CACHED, *ON_TENSOR_CORES, *ON_CUDA_CORES]
_DATASETS = {"cuda": ("cuda-sm-budgets", "sparse-sm-budgets"), "triton": ("triton-sm-budgets",)}
_SMS = 64


def candidate(kernel: Kernel, sources: Mapping[str, KernelSource]) -> Candidate:
    """The candidate of a kernel."""
    space = sources[kernel.source].space(Workload.parse(kernel.workload), "cuda")
    config = _fastest(kernel.source, kernel.like) if kernel.like else None
    if config:
        try:
            return space.candidate(config)
        except InvalidConfigError:
            pass
    return space.candidate(space.starts[0])


@cache
def _fastest(source: str, workload: str) -> Config | None:
    """The config that was fastest on 64 SMs where the workload was recorded."""
    for data in map(_load, _DATASETS[source]):
        rows = data.rows[(data.rows.workload == workload) & (data.rows.sms_granted == _SMS)]
        of_source = rows.candidate.map(lambda each, data=data: data.candidates[each].source == source)
        known = rows[of_source.astype(bool)].dropna(subset="latency_s")
        if len(known):
            fastest: Config = data.candidates[known.sort_values("latency_s").candidate.iloc[0]].config
            return fastest
    return None


@cache
def _load(name: str) -> Dataset:
    return load_dataset(find_dataset(name))

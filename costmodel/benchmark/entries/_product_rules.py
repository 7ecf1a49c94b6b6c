"""How others choose: scores of the kernels of a task, higher is better; NaN for what a rule does not know.

Each is written anew from its description, and asked about kernels that were measured. What a rule leaves open
counts as drawn at random.
"""

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.benchmark._pose_products import WHOLE_SMS
from costmodel.errors import CostModelError
from costmodel.products._product import OPERAND_BYTES, Kernel, Product

Rule = Callable[[Product, Sequence[Kernel], int], FloatArray]
_L2_BYTES = 60 << 20  # of an H200, as are the rates below


def _only(kernels: Sequence[Kernel], wanted: Callable[[Kernel], bool]) -> FloatArray:
    """1 for one kernel, NaN for the others."""
    return np.array([1.0 if wanted(kernel) else math.nan for kernel in kernels])


def torch_call(product: Product, kernels: Sequence[Kernel], sms: int) -> FloatArray:
    """PyTorch's call."""
    return _only(kernels, lambda kernel: kernel.backend == "torch")


def cublaslt_untold(product: Product, kernels: Sequence[Kernel], sms: int) -> FloatArray:
    """The first that cuBLASLt's heuristics offer."""
    return _only(kernels, lambda each: each[:2] == ("cublaslt", "") and each.position == 0)


def cublaslt_told(product: Product, kernels: Sequence[Kernel], sms: int) -> FloatArray:
    """The first that they offer when they are told the SMs."""
    kind = "told" if sms < WHOLE_SMS else ""
    return _only(kernels, lambda each: each[:2] == ("cublaslt", kind) and each.position == 0)


def _scores(
    kernels: Sequence[Kernel], kinds: tuple[str, ...], score: Callable[[Kernel], float]
) -> FloatArray:
    known = [kernel.backend == "triton" and kernel.kind in kinds for kernel in kernels]
    return np.array([score(k) if is_known else math.nan for k, is_known in zip(kernels, known, strict=True)])


def _tiles(product: Product, kernel: Kernel) -> int:
    return product.batch * -(-product.m // kernel.block_m) * -(-product.n // kernel.block_n)


def deepgemm(product: Product, kernels: Sequence[Kernel], sms: int) -> FloatArray:
    """Fewest waves of tiles, then the fullest last wave, the smaller tile, the most stages, as DeepGEMM.

    Source: github.com/deepseek-ai/DeepGEMM, its choice of blocks for ``set_num_sms``.
    """

    def key(kernel: Kernel) -> tuple[int, ...]:
        tiles = _tiles(product, kernel)
        waves = -(-tiles // sms)
        return -waves, (tiles - 1) % sms + 1, -kernel.block_m * kernel.block_n, kernel.stages

    known = [k.backend == "triton" and k.kind in ("persistent", "tma", "plain") for k in kernels]
    # Its kernels are persistent and large; plain ones stand in where no persistent one was measured.
    keys = sorted({key(k) for k, is_known in zip(kernels, known, strict=True) if is_known})
    places = {each: i for i, each in enumerate(keys)}
    return np.array(
        [places[key(k)] if is_known else math.nan for k, is_known in zip(kernels, known, strict=True)],
        np.float64,
    )


def wave_quantisation(product: Product, kernels: Sequence[Kernel], sms: int) -> FloatArray:
    """Least work of the fullest SM, padding and idle ends included; of equal ones, the largest tile.

    Source: NVIDIA, "Matrix Multiplication Background User's Guide", tile and wave quantization.
    """

    def score(kernel: Kernel) -> float:
        waves = math.ceil(_tiles(product, kernel) * kernel.splits / sms)
        area = kernel.block_m * kernel.block_n
        # A tile's share of the peak, by how often what it loads is used.
        use = area / (kernel.block_m + kernel.block_n)
        work = waves * area / kernel.splits / min(1.0, use / 64)
        return -work * (1 - 1e-9 * area)

    return _scores(kernels, ("plain", "split-k", "persistent", "tma"), score)


def origami(product: Product, kernels: Sequence[Kernel], sms: int) -> FloatArray:
    """The latency that Origami, by which tritonBLAS and hipBLASLt choose tiles, expects on ``num_cus`` SMs.

    Source: "tritonBLAS: Triton-based Analytical Approach for GEMM Kernel Parameter Selection" (2025,
    arXiv:2512.04226), algorithms 3 to 9 with the constants of its implementation (ROCm/rocm-libraries,
    ``shared/origami``); one memory level below L2 and NVIDIA's instruction shape, as those who carried it to
    NVIDIA did. It knows tiles; it does not know warps, stages or persistence.
    """
    return _scores(kernels, ("plain",), lambda kernel: -_origami_cycles(product, kernel, sms))


_CLOCK = 1.755e9
_L2_PER_CYCLE, _MEMORY_PER_CYCLE, _MEMORY_SHARE_PER_SM, _MEMORY_CYCLES = (
    5.5e12 / _CLOCK,
    4.3e12 / _CLOCK,
    0.02,
    700,
)
# Operations of an SM and cycle, dense.
_FLOPS_PER_CYCLE = {
    "float16": 4096, "bfloat16": 4096, "tfloat32": 2048, "float32": 256, "float8_e4m3": 8192, "int8": 8192,
}  # fmt: skip


def _origami_cycles(product: Product, kernel: Kernel, sms: int) -> float:
    m, n, k = kernel.block_m, kernel.block_n, kernel.block_k
    width = OPERAND_BYTES[product.dtype]
    grid_m, grid_n = -(-product.m // m), -(-product.n // n) * product.batch
    tiles = grid_m * grid_n
    active, waves = min(tiles, sms), -(-tiles // sms)
    compute = 2 * m * n * k / _FLOPS_PER_CYCLE[product.dtype]
    # Reuse in L2 of the tiles that are computed at once.
    wide = min(kernel.group_m, grid_n)
    high = -(-active // wide)
    if high > grid_m:
        wide, high = min(grid_n, wide + high // grid_m * kernel.group_m), grid_m
    while (high * m * k + wide * n * k) * width > _L2_BYTES and max(high, wide) > 1:
        high, wide = (high - 1, wide) if high > wide else (high, wide - 1)
    first_a, first_b = high * m * k, wide * n * k
    hit = 1 - (first_a + first_b) / (first_a * wide + first_b * high)
    loaded = max((m + n) * k * width, 128) * active
    share = min(1.0, _MEMORY_SHARE_PER_SM * active)
    memory = max(
        loaded / (_L2_PER_CYCLE * active / WHOLE_SMS),
        (1 - hit) * loaded / (_MEMORY_PER_CYCLE * share) + _MEMORY_CYCLES,
    )
    steps = -(-product.k // k)
    padding = grid_m * m * -(-product.n // n) * n * steps * k / (product.m * product.n * product.k)
    store = active * m * n * width / (_MEMORY_PER_CYCLE * share)
    ends = (1.5 * memory * padding + 2 * (store + compute * padding)) * 0.95
    ragged = (product.k % k) / product.k * 50000
    iterations = max(steps - 1, 1)
    return waves * (max(compute, memory) * padding * iterations + ends + 500 * iterations + ragged)


_ACCUMULATORS, _SHARED_BYTES = 32768, 228 << 10
_FULL_WAVE, _PIPELINE, _MOST_STAGES, _MOST_SLAB = 0.8, 4, 6, 256


def helion(product: Product, kernels: Sequence[Kernel], sms: int) -> FloatArray:
    """The config that Helion takes on Hopper without timing; of those measured, the nearest to it.

    The largest tile that accumulators have registers for, halved while its waves leave over a fifth of the
    SMs idle and are fuller for it; slabs of which four fit; eight warps for large tiles.

    Source: the comments of Helion's formula for sm90 (github.com/pytorch/helion, ``autotuner_heuristics``);
    its fitted details are left out.
    """
    m, n = (min(most, max(16, _power_of_two(size))) for most, size in ((128, product.m), (256, product.n)))
    while m * n > _ACCUMULATORS:
        n //= 2
    floor = 16 if product.m < 64 else 64
    while _fullness(product, m, n, sms) < _FULL_WAVE and max(m, n) > floor:
        smaller = (m // 2, n) if m > n else (m, n // 2)
        if _fullness(product, *smaller, sms) < _fullness(product, m, n, sms):
            break
        m, n = smaller
    width = OPERAND_BYTES[product.dtype]
    k = min(_MOST_SLAB, _power_of_two(product.k))
    while k > 16 and _PIPELINE * (m + n) * k * width > _SHARED_BYTES:
        k //= 2
    stages = min(_MOST_STAGES, _SHARED_BYTES // ((m + n) * k * width))
    wanted = np.log2([m, n, k, stages, 8 if m * n >= 16384 else 4])
    return _scores(kernels, ("plain",), lambda kernel: -float(np.abs(np.log2(kernel[2:7]) - wanted).sum()))


def _power_of_two(size: int) -> int:
    """The smallest that is not less."""
    return 1 << (size - 1).bit_length()


def _fullness(product: Product, m: int, n: int, sms: int) -> float:
    """Share of the SMs that tiles of this size keep busy."""
    tiles = product.batch * -(-product.m // m) * -(-product.n // n)
    return tiles / (-(-tiles // sms) * sms)


_PRECISIONS = {"float16": b"HSH", "bfloat16": b"TST", "float32": b"SSS", "tfloat32": b"SSS"}


class NvMatmulHeuristics:
    """Run times that nvidia-matmul-heuristics expects of Triton's kernels; it takes no number of SMs.

    Raises:
        CostModelError: It is not installed.
    """

    def __init__(self) -> None:
        try:
            import nvMatmulHeuristics
        except ImportError:
            raise CostModelError(
                "The rule of nvMatmulHeuristics needs NVIDIA's library, which is not installed: run "
                f"`{sys.executable} -m pip install nvidia-matmul-heuristics`."
            ) from None

        self._layouts = nvMatmulHeuristics.NvMatmulHeuristicsMatmulLayout
        self._library = nvMatmulHeuristics.NvMatmulHeuristicsInterfaceEx(
            backend=nvMatmulHeuristics.NvMatmulHeuristicsTarget.TRITON,
            gpu=nvMatmulHeuristics.NvMatmulHeuristicsNvidiaGpu.H200_SXM,
        )

    def __call__(self, product: Product, kernels: Sequence[Kernel], sms: int) -> FloatArray:
        if product.dtype not in _PRECISIONS:
            return np.full(len(kernels), math.nan)
        layout = self._layouts[f"{product.layout.upper()}_ROW_MAJOR"]
        problem = self._library.makeNvMatmulHeuristicsProblem(*product[:3], layout, product.batch)
        return _scores(kernels, ("plain", "split-k"), lambda kernel: -self._seconds(product, problem, kernel))

    def _seconds(self, product: Product, problem: Any, chosen: Kernel) -> float:
        library = self._library
        down = max(1, min(chosen.warps, chosen.block_m // 16))
        kernel = library.nvmmhKernelConfiguration()
        kernel.cta[:] = (chosen.block_m, chosen.block_n, chosen.block_k)
        kernel.warp[:] = (chosen.block_m // down, chosen.block_n * down // chosen.warps, chosen.block_k)
        kernel.instr[:] = (16, 8, 16)
        kernel.splitK, kernel.loadStages = chosen.splits, chosen.stages
        kernel.gridSwizzle, kernel.cluster[:] = 1, (1, 1)
        return float(
            library.nvMatmulHeuristicsEstimateRuntime(
                library.handle, _PRECISIONS[product.dtype], ctypes.c_int(library.target),
                ctypes.byref(problem), ctypes.byref(kernel), library.hardware_descriptor,
            )
        )  # fmt: skip

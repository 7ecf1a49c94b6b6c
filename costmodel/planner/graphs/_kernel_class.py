"""What a kernel is: told by the operator that launched it and its types, by its workload, last by its name.

``_KINDS`` and ``_PRECISIONS`` are the only places that know names of kernels. They are read from above: the
first row that matches counts. Rows of helpers stand before those of products, as their names have parts of
these (``splitKreduce``, ``triton_poi_fused_convolution_relu_0``).
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple, TypeVar

from costmodel.records._workload import Workload

_T = TypeVar("_T")


class KernelKind(IntEnum):
    """What a kernel does."""

    UNKNOWN = 0
    PRODUCT = 1  # products of matrices, convolutions, attention
    VECTOR_PRODUCT = 2  # products of a matrix and few vectors, which wait for the memory
    STREAMING = 3  # the same to each element, in the order of the memory
    SCATTERED = 4  # the same to each element, in another order: gathers, strides, transposes
    REDUCING = 5  # sums, norms, softmaxes, pooling, scans
    OTHER = 6  # sorts, random numbers, optimisers: nothing of the above
    COLLECTIVE = 7  # what several GPUs do together, and waits for each other in it


class Precision(IntEnum):
    """Type of what a kernel reads."""

    UNKNOWN = 0
    FLOAT32 = 1
    TF32 = 2  # float32 that Tensor Cores round
    HALF = 3  # float16 or bfloat16
    NARROW = 4  # 8 bits and fewer
    FLOAT64 = 5


class KernelClass(NamedTuple):
    """What a kernel is."""

    kind: KernelKind = KernelKind.UNKNOWN
    precision: Precision = Precision.UNKNOWN


_K, _P = KernelKind, Precision
_KINDS = [
    # What Inductor makes: the prefix says what it is, not the names of what it fused.
    (_K.STREAMING, r"triton_(poi|for)_"),
    (_K.REDUCING, r"triton_(red|per|spl|mix)_"),
    (_K.PRODUCT, r"triton_(tem_|(mm|bmm|addmm|convolution|flex_\w+)(_|\b))"),
    # Collectives, optimisers, sorts, transforms.
    (
        _K.COLLECTIVE,
        r"nccl|rccl|oneccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all2all|cross_device|_barrier",
    ),
    (_K.OTHER, r"multi_tensor|fused_?adam|sort|top_?k|top_?p(_|s)|(?<!up)sampl|philox|curand|distribution_"),
    (_K.OTHER, r"fft"),
    (_K.OTHER, r"fused_dropout|dropout_kernel|spmm|csrmm|csrgemm|cusparse|histogram|nonzero|flagged|unique"),
    # Helpers of products, whose names have parts of those of products.
    (_K.REDUCING, r"split_?k_?reduce|combine|xmma_pool|reduce_?segments|post_?gsu|dot_kernel|reduce_1block"),
    (_K.REDUCING, r"dot_do_o"),
    (_K.OTHER, r"computeoffsets|compute\w*offsets|winogradtiles|mla_metadata|prepare_varlen"),
    (_K.OTHER, r"moe_(align|sort)|count_and_sort|init_device_workspace|spin_kernel"),
    (_K.STREAMING, r"converttensor|nch?w_?to_?n|nhwc_?to_?n|n(chw|hwc)_?add|bn_fw_inf|batchnorminfer"),
    (_K.STREAMING, r"batch_norm_transform"),
    (_K.STREAMING, r"lstm_elementwise|elemwisernn|causal_conv1d|depthwise|lstm_cell|gru_cell"),
    (_K.SCATTERED, r"im2col|col2im|transpose|permut|tensor_?reorder"),
    (_K.VECTOR_PRODUCT, r"gemv|wvsplitk|llgemm|mul_mat_vec|skinny_gemm|gemmk1"),
    # Norms and softmaxes of their own; attention has its softmax inside.
    (_K.REDUCING, r"(layer|rms|group|batch|instance|add|weight)_?norm|normforward|rowwisemoments|gammabeta"),
    (_K.REDUCING, r"bn_(fw|bw)|welford"),
    (_K.REDUCING, r"soft_?max(?!\w*att)|logsumexp|cross_?entropy|nll_?loss|l2norm|_norm_kernel"),
    # Attention.
    (_K.PRODUCT, r"flash_?(fwd|bwd|attn|attention|decode|mla|infer)|flash::|flashatt|fmha|_?attn_(fwd|bwd)"),
    (_K.PRODUCT, r"sdpa"),
    (_K.PRODUCT, r"attention(?!\w*(mask|bias))|^_?(fwd|bwd)_(grouped_)?kernel|(prefill|decode)with\w*kv|xqa"),
    (_K.PRODUCT, r"mla_"),
    # Products and convolutions of libraries and frameworks.
    (_K.PRODUCT, r"nvjet|xmma|cutlass|mctlass|gemm|cijk_|wmma|wgmma|hmma|imma|mul_mat|matmul|scaled_mm"),
    (_K.PRODUCT, r"grouped_mm"),
    (_K.PRODUCT, r"(^|[^a-z])(b|add|badd)?mm_(\w*_)?kernel|linear_kernel|fused_moe|fmoe|moe_kernel|marlin"),
    (_K.PRODUCT, r"exllama|machete"),
    (_K.PRODUCT, r"s?cudnn_\d|scudnn|\d\dcudnn|winograd|convol|fprop|dgrad|wgrad|miopensp3asm|gcnasmconv"),
    (_K.PRODUCT, r"naive_conv"),
    (_K.PRODUCT, r"(^|[^a-z])conv(_|\d)|gen_conv|conv(fwd|bwd|wrw)|grouped_conv|xdlops|device_conv|rnn_"),
    (_K.PRODUCT, r"_rnn|chunk_(?!local)"),
    (_K.PRODUCT, r"recurrent_gated|gated_delta"),
    # Sums, pooling, scans.
    (_K.REDUCING, r"reduce|pool|argmax|argmin|cumsum|scan|loss|(^|_)(sum|mean|max|min|prod)_kernel"),
    # Each element for itself, in the order of the memory or in another.
    (_K.STREAMING, r"(vectorized|unrolled)_?elementwise|catarray|op_(generic_)?tensor|act_and_mul"),
    (_K.STREAMING, r"eigenmetakernel"),
    (_K.SCATTERED, r"index|gather|scatter|embedding|segment|grad_weight|elementwise_?kernel|upsampl"),
    (_K.SCATTERED, r"interpolat|(?<!un)roll|flip|pad|tri[ul]_"),
    (_K.SCATTERED, r"reshape_and_cache|copy_blocks|swap_blocks|kv_?cache|rotary|rope(_|\b)"),
    (_K.STREAMING, r"elementwise|pointwise|silu|gelu|relu|sigmoid|swiglu|tanh"),
    (_K.STREAMING, r"(add|mul|sub|div|exp|pow)_\w*kernel|quant"),
    (_K.STREAMING, r"copy|fill|memset|cast|convert|arange|addalpha|expandkernel|_func_kernel|scaled_fp8"),
    (_K.STREAMING, r"memcpy"),
]
_PRECISIONS = [
    (_P.FLOAT64, r"d884|dgemm"),
    (_P.NARROW, r"e4m3|e5m2|e2m1|fp8|fp4|float8|a8w8|int8|i8816|i16832|imma|w4a16|[_a-z]q[48]_"),
    (_P.NARROW, r"nvjet_(sm\d+_)?[qo]"),
    (_P.NARROW, r"_s8(?!\d)|_i8(?!\d)|_f8(?!\d)|cijk_[a-z]{4}_[a-z]{4}_(f8|b8|i8)"),
    (_P.HALF, r"bf16|bfloat16|fp16|__half|half_t|c10::half|<half|float16|f16|884(gemm|cudnn)|hgemm|ushort"),
    (_P.HALF, r"16816|h1688|hmma|nvjet_(sm\d+_)?[ht]|cijk_[a-z]{4}_[a-z]{4}_(bb|bs|hh|hs|hb)"),
    (_P.TF32, r"tf32|tfloat32|s1688|xf32|nvjet_(sm\d+_)?s|cijk_[a-z]{4}_[a-z]{4}_s_mx"),
    (_P.FLOAT32, r"sgemm|scudnn|f32|fp32|float32|float_double|[<(]float|float>|float,"),
    (_P.FLOAT32, r"cijk_[a-z]{4}_[a-z]{4}_s(b|_)"),
    (_P.FLOAT64, r"double|f64|fp64|cijk_[a-z]{4}_[a-z]{4}_db"),
]
_OF_KIND = [(kind, re.compile(pattern)) for kind, pattern in _KINDS]
_OF_PRECISION = [(precision, re.compile(pattern)) for precision, pattern in _PRECISIONS]
# Operators of PyTorch by what their kernels do, beside helpers.
_OPERATORS = [
    (_K.VECTOR_PRODUCT, r"aten::(addmv|mv|dot|vdot)"),
    (
        _K.PRODUCT,
        r"aten::_?(addmm|mm|bmm|baddbmm|matmul|linear|einsum|scaled_mm|int_mm|grouped_mm|addbmm)(_|$|out)",
    ),
    (_K.PRODUCT, r"aten::\w*conv(olution|\d|_)|(aten::)?\w*(attention|flash_attn|sdpa)|flash_attn\w*::"),
    (_K.PRODUCT, r"xformers\w*::"),
    (_K.PRODUCT, r"(vllm|_C|_moe_C|_rocm_C|sgl_kernel|aiter)::\w*(gemm|_mm|moe|mla)"),
    (
        _K.REDUCING,
        r"aten::\w*(softmax|norm|sum|mean|var|pool|logsumexp|nll_loss|cross_entropy|amax|amin|argmax|cumsum)",
    ),
    (_K.SCATTERED, r"aten::_?(index|gather|scatter|embedding|take|roll|flip|repeat|upsample|pixel)"),
    (
        _K.STREAMING,
        r"aten::(add|sub|mul|div|relu|gelu|silu|sigmoid|tanh|exp|pow|neg|clamp|where|copy|to|cat|fill|zero)_?$",
    ),
]
_OF_OPERATOR = [(kind, re.compile(pattern)) for kind, pattern in _OPERATORS]
_TYPES = {
    "float": Precision.FLOAT32,
    "c10::Half": Precision.HALF,
    "c10::BFloat16": Precision.HALF,
    "double": Precision.FLOAT64,
    "c10::Float8_e4m3fn": Precision.NARROW,
    "c10::Float8_e5m2": Precision.NARROW,
    "signed char": Precision.NARROW,
}
_PRODUCTS = (KernelKind.PRODUCT, KernelKind.VECTOR_PRODUCT)


@cache
def class_of_name(name: str) -> KernelClass:
    """Tell what a kernel is by its name alone."""
    said = name.lower()
    kind = _first(_OF_KIND, _without_arguments(said)) or _first(_OF_KIND, said) or KernelKind.UNKNOWN
    return KernelClass(kind, _first(_OF_PRECISION, said) or Precision.UNKNOWN)


def class_of_call(name: str, operator: str, types: Sequence[object]) -> KernelClass:
    """Tell what a kernel is by the operator that launched it, the types of its inputs, and its name.

    The operator says whether there is a product, the name which of its kernels are helpers.
    """
    by_name = class_of_name(name)
    asked = next((kind for kind, pattern in _OF_OPERATOR if pattern.match(operator)), KernelKind.UNKNOWN)
    kind = by_name.kind
    if asked in _PRODUCTS:
        kind = asked if kind == KernelKind.UNKNOWN else kind
    elif asked != KernelKind.UNKNOWN and kind in (*_PRODUCTS, KernelKind.UNKNOWN):
        kind = asked
    found = next((_TYPES[each] for each in types if isinstance(each, str) and each in _TYPES), None)
    return KernelClass(kind, _precision(found, by_name.precision))


def class_of_workload(workload: Workload, name: str) -> KernelClass:
    """Tell what the kernel of a workload is; its name says whether it rounds float32 to TF32."""
    by_name = class_of_name(name)
    if workload.is_foreign or not workload.flops:
        return by_name
    rows = ("softmax", "layer_norm", "rms_norm")
    kind = KernelKind.REDUCING if workload.kind.startswith(rows) else KernelKind.PRODUCT
    kind = KernelKind.VECTOR_PRODUCT if by_name.kind == KernelKind.VECTOR_PRODUCT else kind
    found = Precision.HALF if workload.dtype == "float16" else Precision.FLOAT32
    return KernelClass(kind, _precision(found, by_name.precision))


def _first(rows: "list[tuple[_T, re.Pattern[str]]]", text: str) -> "_T | None":
    return next((value for value, pattern in rows if pattern.search(text)), None)


def _without_arguments(name: str) -> str:
    """The name of a function in C++ without arguments, which name other functions and types."""
    if name.startswith("_z"):
        return _mangled(name)
    kept, depth = [], 0
    for part in re.split(r"(\(anonymous namespace\)|[<>()])", name):
        if part in ("<", "("):
            depth += 1
        elif part in (">", ")"):
            depth -= 1
        elif depth <= 0:
            kept.append(part)
    return "".join(kept)


def _precision(of_inputs: Precision | None, by_name: Precision) -> Precision:
    if of_inputs is None:
        return by_name
    is_rounded = of_inputs == Precision.FLOAT32 and by_name == Precision.TF32
    return by_name if is_rounded else of_inputs


def _mangled(name: str) -> str:
    """The name of a function as compilers write it: a length and so many characters, part for part."""
    found, place = [], len(name) - len(name[2:].lstrip("nkl"))
    while length := re.match(r"\d{1,9}", name[place:]):
        begin = place + length.end()
        place = begin + int(length[0])
        found.append(name[begin:place])
    return "::".join(found)

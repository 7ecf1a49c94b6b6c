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
# What several GPUs do together is told by the whole name: its namespace may say it alone.
_COLLECTIVE = re.compile(
    r"^(?!triton_(poi|for|red|per|spl|mix|tem)_).*("
    r"nccl|rccl|msccl|oneccl|nvshmem|deep_ep|all_?reduce|all_?gather|reduce_?scatter|all_?(to|2)_?all|a2a|"
    r"cross_device|multimem|quickreduce|moe_comm|_dcp|wait_lse|_barrier)"
)
_KINDS = [
    # What compilers make: the prefix says what it is, not the names of what was fused.
    (_K.STREAMING, r"triton_(poi|for)_"),
    (_K.REDUCING, r"triton_(red|per|spl|mix)_"),
    (_K.PRODUCT, r"triton_(tem_|(mm|bmm|addmm|convolution|flex_\w+)(_|\b))"),
    (_K.PRODUCT, r"^(__myl_\w*(fc|gemm|conv|mha)|gemm_fusion|(bmm|gemm)_\w+_t\d+x\d+x\d+|mfma_moe)"),
    (_K.SCATTERED, r"^(loop|input|wrapped)_(transpose|slice|scatter|gather|dynamic|reverse|pad)"),
    (_K.REDUCING, r"^((input|loop|wrapped|row|column)_reduc|__myl_\w*(mean|sum|max|min))"),
    (_K.STREAMING, r"^((loop|wrapped)_\w*|(\w+_)?fusion(_\d+)?$)"),
    # Optimisers, sorts, transforms, and what prepares and samples the tokens of a server.
    (_K.REDUCING, r"merge_\w*(attn|state)|finalize|softmaxmap"),
    (_K.OTHER, r"multi_tensor|fused_?adam|optimizer|sort|top_?k|top_?p(_|s)|(?<!up)sampl|philox|curand"),
    (_K.OTHER, r"distribution|fft|applyadam"),
    (_K.OTHER, r"fused_dropout|dropout_kernel|spmm|csrmm|csrgemm|cusparse|histogram|nonzero|flagged|unique"),
    (_K.OTHER, r"routing|moe_\w*gate|countandindice|computestrides|prepare_(pos|prefill|input)|post_update"),
    (_K.OTHER, r"num_kv_splits|build_tree|^mode$|radixfind|deviceselect"),
    (_K.SCATTERED, r"kv_indices|token_pool|ep_(gather|scatter)|get_k_and_s"),
    # Helpers of products, whose names have parts of those of products.
    (_K.REDUCING, r"split_?k_?reduce|combine|xmma_pool|reduce_?segments|post_?gsu|dot_kernel|reduce_1block"),
    (_K.REDUCING, r"dot_?(do_)?o(_|kernel)|(fmha|mla|attn|attention|gemm)\w*reduc|attn_res_"),
    (_K.REDUCING, r"fwd_kernel_stage2|nrm2|asum|bias_?(diff|grad)|chunk_cumsum"),
    (_K.STREAMING, r"axpy|scal_kernel|scalepackedtensor|convertqgrad|cublaslt::epilogue"),
    (_K.OTHER, r"computeoffsets|compute\w*offsets|winogradtiles|mla_metadata|prepare_varlen"),
    (_K.OTHER, r"moe_(align|sort)|count_and_sort|init_device_workspace|spin_kernel"),
    (_K.STREAMING, r"converttensor|nch?w_?to_?n|nhwc_?to_?n|n(chw|hwc)_?add|bn_fw_inf|batchnorminfer"),
    (_K.STREAMING, r"batch_norm_transform|act(ivation)?_and_mul|gated_act"),
    (_K.STREAMING, r"lstm_elementwise|elemwisernn|causal_conv1d|depthwise|lstm_cell|gru_cell"),
    (_K.STREAMING, r"gdn_(gating|kernel)"),
    (_K.SCATTERED, r"im(3d)?2col|col2im|transpose|permut|tensor_?reorder|concat_and_cache"),
    (_K.SCATTERED, r"swap_?dimension|shuffle_?in|(channel|pixel)_?shuffle|rearrange|contiguous_?case"),
    (_K.SCATTERED, r"copyvectorized|get_rows"),
    (_K.VECTOR_PRODUCT, r"gemv|wvsplitk|llgemm|mul_mat_vec|skinny_gemm|gemmk1|4bit_inference"),
    # Norms and softmaxes of their own; attention has its softmax inside.
    (_K.REDUCING, r"(layer|rms|group|batch|instance|add|weight)_?norm|normforward|rowwisemoments|gammabeta"),
    (_K.REDUCING, r"norm_?m?rope|(^|_)rms_|bn_(fw|bw)|welford"),
    (_K.REDUCING, r"soft_?max(?!\w*att)|logsumexp|cross_?entropy|nll_?loss|l2norm|_norm_kernel|lpnorm"),
    # Attention.
    (_K.PRODUCT, r"flash_?(fwd|bwd|attn|attention|decode|mla)|flash::|flashatt|fmha|_?attn_(fwd|bwd)"),
    (_K.PRODUCT, r"sdpa|(^|_)(gqa|mqa|mha)_|index_score"),
    (_K.PRODUCT, r"attention(?!\w*(mask|bias))|^_?(fwd|bwd)_(grouped_)?kernel|xqa"),
    (_K.PRODUCT, r"(prefill|decode)(with|_)\w*kv"),
    (_K.PRODUCT, r"(?<!cache_)mla_?(a\d|decode|prefill|fwd|kernel|qh)|split_kv_kernel"),
    # Products and convolutions of libraries and frameworks.
    (_K.PRODUCT, r"nvjet|xmma|mctlass|gemm(?!a_)|cijk_|wmma|wgmma|hmma|imma|mul_mat|matmul|scaled_mm"),
    (_K.PRODUCT, r"grouped_mm|cutlass(?!_kernel_\w*quanti)"),
    (_K.PRODUCT, r"(^|[^a-z])(b|add|badd)?mm_(\w*_)?kernel|linear_kernel|fused_moe|fmoe|moe_kernel|marlin"),
    (_K.PRODUCT, r"weight_only|flatmm|moe_?(stage|q\d)|stage\d_a\d+w\d|exllama|machete"),
    (_K.PRODUCT, r"s?cudnn_\d|scudnn|\d\dcudnn|winograd|convol|fprop|dgrad|wgrad|miopensp3asm|gcnasmconv"),
    (_K.PRODUCT, r"naive_conv|lora_(shrink|expand)|[bs]gmv"),
    (_K.PRODUCT, r"(^|[^a-z])conv(_|\d)|gen_conv|conv(fwd|bwd|wrw)|grouped_conv|xdlops|device_conv|rnn_"),
    (_K.PRODUCT, r"_rnn|chunk_(?!local)|recurrent_(gated|kda)|gated_delta|gdnprefill|recompute_w_u"),
    # Sums, pooling, scans.
    (_K.REDUCING, r"reduce|pool|argmax|argmin|cumsum|prefix_?sum|scan|loss|criterion|mul_sum"),
    (_K.REDUCING, r"(^|_)(sum|mean|max|min|prod)_kernel"),
    # Each element for itself, in the order of the memory or in another.
    (_K.STREAMING, r"(vectorized|unrolled)_?elementwise|elementwise_kernel_with_index|catarray"),
    (_K.STREAMING, r"op_?(generic_)?tensor|tensorop|eigenmetakernel|_binary|reorder|repeatbuffer|penalt"),
    (_K.SCATTERED, r"index|gather|scatter|embedding|segment|grad_weight|elementwise_?(globalrange)?kernel"),
    (_K.SCATTERED, r"upsampl|interpolat|nearest|(?<!un)roll|flip|pad|tri[ul]_|move_?indice"),
    (_K.SCATTERED, r"expand_?input|slot_mapping"),
    (_K.SCATTERED, r"reshape_and_cache|copy_blocks|swap_blocks|kv_?cache|rotary|rope(_|\b)"),
    (_K.STREAMING, r"elementwise|pointwise|silu|gelu|relu|sigmoid|swiglu|tanh|activ|(^|_)(amp|zero)_"),
    (_K.STREAMING, r"(add|mul|sub|div|exp|pow)_\w*kernel|quant"),
    (_K.STREAMING, r"copy|fill|memset|cast|convert|arange|addalpha|expandkernel|_func_kernel|scaled_fp8"),
    (_K.STREAMING, r"memcpy|cpy_|where_|bias_?n(hwc|chw)|concat|mapplan"),
]
_PRECISIONS = [
    (_P.FLOAT64, r"d884|dgemm"),
    (_P.NARROW, r"e4m3|e5m2|e2m1|fp8(?!kvcache)|mxf4|fp4|float8|int8|i8816|i16832|imma|[_a-z]q[48]_"),
    (_P.NARROW, r"w4a16|a16w4|a8w[48]|a4w4|nvjet_(sm\d+_)?[qo]"),
    (_P.NARROW, r"_s8(?!\d)|_(4x)?i8(?!\d)|_f8(?!\d)|cijk_[a-z]{4}_[a-z]{4}_(f8|b8|i8)"),
    (_P.HALF, r"bf16|bfloat16|fp16|__half|half_t|c10::half|<half|::half|float16|f16"),
    (_P.HALF, r"884(gemm|cudnn)|hgemm|u(nsigned )?short"),
    (_P.HALF, r"16816|h1688|hmma|nvjet_(sm\d+_)?[ht]|cijk_[a-z]{4}_[a-z]{4}_(b_?b|bs|h_?h|hs|hb)"),
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
        r"aten::\w*(mm|matmul|linear|einsum)(_|$)",
    ),
    (_K.PRODUCT, r"aten::\w*conv(olution|\d|_)|(aten::)?\w*(attention|flash_attn|sdpa)|flash_attn\w*::"),
    (_K.PRODUCT, r"xformers\w*::"),
    (
        _K.PRODUCT,
        r"(vllm|_C|_moe_C|_rocm_C|_vllm_fa\d_C|sgl_kernel|sglang|aiter|trtllm|deep_gemm)::"
        r"\w*(gemm|_mm|moe|mla|attention|mha|varlen_fwd|fused_experts)",
    ),
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
    return KernelClass(_kind_of_name(said), _first(_OF_PRECISION, said) or Precision.UNKNOWN)


def class_of_call(name: str, operator: str, types: Sequence[object]) -> KernelClass:
    """Tell what a kernel is by the operator that launched it, the types of its inputs, and its name.

    The operator says whether there is a product, the name which of its kernels are helpers.
    """
    found = next((_TYPES[each] for each in types if isinstance(each, str) and each in _TYPES), None)
    return _class_of_call(name, operator, found)


@cache
def _class_of_call(name: str, operator: str, of_inputs: Precision | None) -> KernelClass:
    by_name = class_of_name(name)
    asked = next((kind for kind, pattern in _OF_OPERATOR if pattern.match(operator)), KernelKind.UNKNOWN)
    kind = by_name.kind
    if asked in _PRODUCTS:
        kind = asked if kind == KernelKind.UNKNOWN else kind
    elif asked != KernelKind.UNKNOWN and kind in (*_PRODUCTS, KernelKind.UNKNOWN):
        kind = asked
    return KernelClass(kind, _precision(of_inputs, by_name.precision))


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


def _kind_of_name(said: str) -> KernelKind:
    """Ask the function's own name first, then its namespaces, which say whose it is, last its arguments."""
    qualified = _without_arguments(said)
    if _COLLECTIVE.search(qualified):
        return KernelKind.COLLECTIVE
    own = qualified.rpartition("::")[2]
    found = (_first(_OF_KIND, view) for view in (own, qualified, said))
    return next((kind for kind in found if kind is not None), KernelKind.UNKNOWN)


def _first(rows: "list[tuple[_T, re.Pattern[str]]]", text: str) -> "_T | None":
    return next((value for value, pattern in rows if pattern.search(text)), None)


def _without_arguments(name: str) -> str:
    """The name of a function without arguments, which name other functions and types.

    CuTe's Python writes the types of arguments behind the name of the class.
    """
    if name.startswith("_z"):
        return _mangled(name)
    name = name.partition("_object_at_")[0].removeprefix("kernel_cutlass_kernel_")
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

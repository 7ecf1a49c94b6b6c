"""Matrix products that models make: which, how large, stored how, followed by what."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from costmodel.products._product import Product


class Shape(NamedTuple):
    """``C[m, n] = epilogue(A[m, k] B[k, n])``, ``batch`` times.

    Attributes:
        family: Whose product it is; shapes are held out by it.
        m: Rows of C.
        n: Columns of C.
        k: Length of the sums.
        batch: Products.
        dtype: Of the operands; "tfloat32" is float32 rounded to TensorFloat-32.
        layout: A then B: "n" as the product reads it, by rows; "t" transposed.
        epilogue: "", "bias" or "bias_gelu".
    """

    family: str
    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "float16"
    layout: str = "nt"
    epilogue: str = ""

    @property
    def product(self) -> Product:
        """The same, whoever makes it."""
        return Product(*self[1:])


# Width of the inputs and the outputs of a model's linear layers.
_LINEAR = {
    "llama": (
        *((4096, n) for n in (4096, 6144, 12288, 22016, 28672)),
        *((k, 4096) for k in (11008, 14336)),
        *((8192, n) for n in (1280, 7168, 8192, 10240)),
        *((k, 8192) for k in (1024, 3584, 7168)),
        *((5120, n) for n in (5120, 13824)),
        (13824, 5120),
        *((2048, n) for n in (2048, 3072, 8192)),
        *((3072, n) for n in (3072, 5120, 8192)),
        (8192, 3072),
    ),
    "qwen": (
        *((896, n) for n in (896, 1152, 9728)),
        (4864, 896),
        *((1536, n) for n in (1536, 2048, 17920)),
        (8960, 1536),
        *((3584, n) for n in (3584, 4608, 18944)),
        (18944, 3584),
        *((5120, n) for n in (5120, 7168, 27648)),
        (27648, 5120),
        *((1024, n) for n in (3072, 4096)),
        (3072, 1024),
        *((2560, n) for n in (2560, 6144, 9728)),
    ),
    "mixtral": (
        *((4096, n) for n in (8, 4096, 6144, 14336)),
        (14336, 4096),
        *((6144, n) for n in (8192, 16384)),
        (2048, 4096),
        (3584, 4096),
        (4096, 3584),
    ),
    "deepseek": (
        *((7168, n) for n in (256, 576, 1536, 2048, 4096, 18432)),
        *((1536, n) for n in (3072, 24576)),
        *((512, n) for n in (4096, 32768)),
        *((k, 7168) for k in (2048, 16384, 18432)),
        *((2048, n) for n in (64, 576, 1408, 2816, 3072, 10944)),
        (1408, 2048),
        (2816, 2048),
    ),
    "bert": (
        *((768, n) for n in (768, 2304, 3072)),
        (3072, 768),
        *((1024, n) for n in (1024, 3072, 4096)),
        (4096, 1024),
        *((512, n) for n in (512, 1536, 2048)),
        (2048, 512),
    ),
    "gpt2": (
        *((768, n) for n in (768, 2304, 3072)),
        (3072, 768),
        *((1600, n) for n in (1600, 4800, 6400)),
        (6400, 1600),
    ),
    "dlrm": (
        *((13, 512), (512, 256), (256, 128), (256, 64)),
        *((479, 1024), (1024, 1024), (1024, 512), (512, 256)),
        *((367, 512), (415, 512), (128, 3072), (3072, 128)),
    ),
}
_TOKENS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_LONG = (6144, 8192)
_ODD_TOKENS = (3, 7, 17, 33, 77, 100, 197, 300, 577, 1000, 1500)
# (heads times sequences, queries, keys, width of a head)
_ATTENTION = tuple(
    (batch, queries, keys, width)
    for width in (64, 80, 128)
    for batch, queries, keys in (
        *((8, 1024, 1024), (12, 512, 512), (16, 384, 384), (16, 128, 128), (32, 1, 2048), (32, 256, 256)),
        *((32, 512, 512), (32, 1024, 1024), (64, 197, 197), (96, 128, 128), (8, 2048, 2048), (128, 64, 64)),
    )
)
# (pixels, channels out, channels in times the window)
_CONVOLUTIONS = tuple(
    (images * pixels, out, window)
    for images in (1, 8)
    for pixels, out, window in (
        *(
            (3136, 64, 64),
            (3136, 64, 576),
            (3136, 256, 64),
            (3136, 64, 256),
            (784, 128, 1152),
            (784, 512, 128),
        ),
        *((784, 128, 512), (196, 256, 2304), (196, 1024, 256), (196, 256, 1024), (49, 512, 4608)),
        *((49, 2048, 512), (49, 512, 2048), (12544, 64, 147)),
    )
)
MOST_FLOPS = 5e11  # 0.8 ms of a whole H100
MOST_ELEMENTS = 3 << 28


def list_shapes(seed: int = 0) -> list[Shape]:
    """List every product once, in an order drawn by ``seed``: any beginning is a sample of all."""
    shapes = list(dict.fromkeys(shape for shape in _all(random.Random(seed)) if _is_fit(shape)))
    random.Random(seed).shuffle(shapes)
    return shapes


def _is_fit(shape: Shape) -> bool:
    sizes = shape.m * shape.k, shape.k * shape.n, shape.m * shape.n
    return shape.product.flops <= MOST_FLOPS and shape.batch * sum(sizes) <= MOST_ELEMENTS


def _all(draw: random.Random) -> Iterator[Shape]:
    for family, layers in _LINEAR.items():
        for k, n in layers:
            few = draw.sample(_TOKENS, 12) + draw.sample(_ODD_TOKENS, 2) + draw.sample(_LONG, 1)
            for tokens in few:
                yield _linear(draw, family, tokens, n, k)
            yield Shape(family, k, n, draw.choice((256, 512, 1024, 2048)), 1, _half(draw), "tn")
    for batch, queries, keys, width in _ATTENTION:
        yield Shape("attention", queries, keys, width, batch, _half(draw), "nt")
        yield Shape("attention", queries, width, keys, batch, _half(draw), "nn")
    for pixels, out, window in _CONVOLUTIONS:
        for dtype in draw.sample(("float16", "tfloat32", "float32", "bfloat16"), 2):
            yield Shape("convolution", pixels, out, window, 1, dtype, draw.choice(("nn", "nt")))
    for _ in range(260):
        yield _any(draw)


def _half(draw: random.Random) -> str:
    return "bfloat16" if draw.random() < 0.3 else "float16"


def _linear(draw: random.Random, family: str, tokens: int, n: int, k: int) -> Shape:
    """A layer on some tokens: mostly of 16 bits with weights stored as PyTorch does."""
    layout = "nn" if family == "gpt2" or draw.random() < 0.12 else "nt"
    if family in ("bert", "gpt2"):
        epilogue = "bias_gelu" if n >= 3 * k else draw.choice(("", "bias"))
    else:
        epilogue = draw.choices(("", "bias", "bias_gelu"), (0.86, 0.09, 0.05))[0]
    kinds = {
        "float16": 0.5,
        "bfloat16": 0.22,
        "float8_e4m3": 0.1,
        "int8": 0.06,
        "tfloat32": 0.08,
        "float32": 0.04,
    }
    if family == "dlrm":
        kinds = {"float16": 0.5, "bfloat16": 0.1, "tfloat32": 0.3, "float32": 0.1}
    dtype = draw.choices(list(kinds), list(kinds.values()))[0]
    if dtype in ("float8_e4m3", "int8"):
        layout, epilogue = "nt", ""
        if tokens <= 16 or n % 16 or k % 16:  # as _int_mm and _scaled_mm require
            dtype = "float16"
    elif dtype in ("tfloat32", "float32"):
        epilogue = ""
    return Shape(family, tokens, n, k, 1, dtype, layout, epilogue)


def _any(draw: random.Random) -> Shape:
    """Sizes by chance, half of them badly aligned."""
    step = draw.choice((1, 8, 64, 128))
    m, n, k = (max(step, int(2 ** draw.uniform(5, 12.7)) // step * step) for _ in range(3))
    m = m if draw.random() < 0.6 else draw.choice(_TOKENS + _ODD_TOKENS)
    dtype = draw.choices(("float16", "bfloat16", "tfloat32", "float32"), (0.55, 0.2, 0.15, 0.1))[0]
    layout = draw.choice(("nt", "nn", "tn") if dtype == "float16" and m > 16 else ("nt", "nn"))
    return Shape("any", m, n, k, 1, dtype, layout)

"""Kernels that a model's layers call, read from its ``config.json`` as Hugging Face keeps it.

Names of fields are those of ``transformers``: ``MixtralConfig``, ``Qwen3MoeConfig``, ``DeepseekV3Config``,
``GptOssConfig``, ``Llama4TextConfig`` and their kin.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from costmodel.errors import CostModelError
from costmodel.reading import is_folder, read_json
from costmodel.serving._kernel import BlockShape, ExpertProducts, Kernel, Precision, ScaledProduct

_REMEDY = "Give the config.json that lies beside the model's weights."
_ATTENTION = (
    "Attention, norms, rotary embedding and routing: frameworks take no table for them (SGLang's decode "
    "attention takes `--triton-attention-num-kv-splits`)."
)
_SIXTEEN_BITS = "Products of linear layers in 16 bits: a library runs them, without a table."
_OTHER_PRODUCTS = "Products of linear layers: only those in float8 with scales for blocks take a table."
Size = Annotated[int, msgspec.Meta(ge=0, lt=2**24)]
Experts = Annotated[int, msgspec.Meta(ge=0, lt=2**14)]
_Side = Annotated[int, msgspec.Meta(ge=1, lt=2**16)]


class ServedModel(msgspec.Struct, frozen=True):
    """Kernels of a model that frameworks take a table for.

    Attributes:
        name: What the model is called.
        kernels: What they are for, and the kernel.
        left_out: What of the model takes no table, and why, in sentences.
    """

    name: str
    kernels: dict[str, Kernel]
    left_out: tuple[str, ...]


class _Types(msgspec.Struct, frozen=True):
    num_bits: int = 0
    type: str = ""
    group_size: int | None = None
    block_structure: tuple[_Side, _Side] | None = None


class _Group(msgspec.Struct, frozen=True):
    """Layers that are quantised alike, as the library compressed-tensors says it."""

    weights: _Types | None = None
    input_activations: _Types | None = None


class _Quantization(msgspec.Struct, frozen=True):
    quant_method: str = ""
    bits: int = 0
    group_size: int = -1
    weight_block_size: tuple[_Side, _Side] | None = None
    config_groups: dict[str, _Group] = {}


class _Config(msgspec.Struct, frozen=True):
    """Fields of all kinds of models; 0 where a model has none."""

    model_type: str = ""
    hidden_size: Size = 0
    intermediate_size: Size = 0
    moe_intermediate_size: Size | None = None
    num_attention_heads: Size = 0
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    num_local_experts: Experts | None = None
    num_experts: Experts | None = None
    n_routed_experts: Experts | None = None
    num_experts_per_tok: Size | None = None
    experts_per_token: Size | None = None
    n_shared_experts: Size | None = None
    first_k_dense_replace: Size = 0
    q_lora_rank: Size | None = None
    kv_lora_rank: Size | None = None
    qk_nope_head_dim: Size | None = None
    qk_rope_head_dim: Size | None = None
    v_head_dim: Size | None = None
    quantization_config: _Quantization | None = None
    text_config: "_Config | None" = None

    @property
    def experts(self) -> int:
        return self.n_routed_experts or self.num_experts or self.num_local_experts or 0

    @property
    def chosen(self) -> int:
        return self.num_experts_per_tok or self.experts_per_token or 0


def read_served_model(path: Path | str, *, tensor_parallel: int = 1, expert_parallel: int = 1) -> ServedModel:
    """Read a model's kernels.

    Args:
        path: Its ``config.json``, or the folder with it.
        tensor_parallel: GPUs that share each expert and each product.
        expert_parallel: GPUs that share the experts out.

    Raises:
        CostModelError: The file cannot be read, is of no such model, or does not divide by so many GPUs.
    """
    file = Path(path) / "config.json" if is_folder(path) else Path(path)
    whole: _Config = read_json(file, _Config, "the configuration of a model", remedy=_REMEDY)
    config = whole.text_config or whole  # models that read pictures have both
    if not config.hidden_size or not config.num_attention_heads:
        raise CostModelError(
            f"{file} must be the configuration of a language model, with hidden_size and "
            f"num_attention_heads, but lacks them. {_REMEDY}"
        )
    quantization = whole.quantization_config or config.quantization_config
    layers = _Layers(file, config, quantization or _Quantization(), (tensor_parallel, expert_parallel))
    kernels = dict(layers.kernels())
    return ServedModel(whole.model_type or file.parent.name, kernels, tuple(layers.left_out))


class _Layers:
    """The layers of a model on one of the GPUs that share it."""

    def __init__(
        self, file: Path, config: _Config, quantization: _Quantization, parallel: tuple[int, int]
    ) -> None:
        self._file, self._config = file, config
        self._tensor_parallel, self._expert_parallel = parallel
        self._types = _types(quantization)
        self._method = quantization.quant_method
        self.left_out = [_ATTENTION]

    def kernels(self) -> Iterator[tuple[str, Kernel]]:
        """Yield each kernel, and what of a layer it is for."""
        precision, block = self._types or ("", None)
        if self._config.experts and self._types:
            yield "experts", self._experts(precision, block)
        elif self._config.experts:
            self.left_out.append(
                f"Experts quantised by {self._method!r}: their kernels take no table of tiles."
            )
        if precision == "fp8_w8a8" and block:
            for name, columns, depth in self._products():
                if not (columns and depth):
                    raise CostModelError(
                        f"{self._file}: the product of {name} must have sizes, but has {columns} results of "
                        f"{depth} elements. {_REMEDY}"
                    )
                yield name, ScaledProduct(columns, depth, block)
        else:
            self.left_out.append(_SIXTEEN_BITS if not self._method else _OTHER_PRODUCTS)

    def _experts(self, precision: Precision, block: BlockShape | None) -> ExpertProducts:
        config = self._config
        if config.chosen > config.experts:
            raise CostModelError(
                f"{self._file}: a token must choose at most as many experts as there are ({config.experts}), "
                f"but num_experts_per_tok is {config.chosen}. {_REMEDY}"
            )
        return ExpertProducts(
            self._share("the number of experts", config.experts, self._expert_parallel),
            config.chosen,
            self._of_gpu("the width of an expert", config.moe_intermediate_size or config.intermediate_size),
            config.hidden_size,
            precision,
            block,
        )

    def _products(self) -> Iterator[tuple[str, int, int]]:
        """Yield the products of linear layers: name, results and elements of a token."""
        config = self._config
        yield from self._latent_attention() if config.kv_lora_rank else self._attention()
        if not config.experts or config.first_k_dense_replace:
            yield from self._mlp("dense", config.intermediate_size)
        if config.experts and config.n_shared_experts:
            width = (config.moe_intermediate_size or config.intermediate_size) * config.n_shared_experts
            yield from self._mlp("shared expert", width)

    def _mlp(self, name: str, width: int) -> Iterator[tuple[str, int, int]]:
        own, hidden = self._of_gpu(f"the width of the {name} layer", width), self._config.hidden_size
        yield f"{name}, gate and up", 2 * own, hidden
        yield f"{name}, down", hidden, own

    def _attention(self) -> Iterator[tuple[str, int, int]]:
        config, heads = self._config, self._config.num_attention_heads
        size = config.head_dim or config.hidden_size // heads
        own = self._of_gpu("the number of heads", heads)
        keys = max(1, (config.num_key_value_heads or heads) // self._tensor_parallel)
        yield "attention, query, key and value", (own + 2 * keys) * size, config.hidden_size
        yield "attention, output", config.hidden_size, own * size

    def _latent_attention(self) -> Iterator[tuple[str, int, int]]:
        """Of DeepSeek: queries and keys come from latent vectors that all heads share."""
        config, hidden = self._config, self._config.hidden_size
        own = self._of_gpu("the number of heads", config.num_attention_heads)
        plain, rotary = config.qk_nope_head_dim or 0, config.qk_rope_head_dim or 0
        value, query, latent = config.v_head_dim or 0, config.q_lora_rank or 0, config.kv_lora_rank or 0
        yield "attention, to latent vectors", query + latent + rotary, hidden
        yield "attention, query", own * (plain + rotary), query or hidden
        yield "attention, key and value", own * (plain + value), latent
        yield "attention, output", hidden, own * value

    def _of_gpu(self, what: str, size: int) -> int:
        return self._share(what, size, self._tensor_parallel)

    def _share(self, what: str, size: int, gpus: int) -> int:
        if not size:
            raise CostModelError(f"{self._file} must tell {what}, but does not. {_REMEDY}")
        if size % gpus:
            raise CostModelError(
                f"{self._file}: {what} ({size}) must be a multiple of the GPUs that share it, but got {gpus}."
            )
        return size // gpus


def _types(told: _Quantization) -> tuple[Precision, BlockShape | None] | None:
    """Types of tokens and weights, and the block of a scale; None where kernels take no table."""
    method, group = told.quant_method, (0, max(told.group_size, 0))
    if not method:
        return "", None
    if method == "fp8":
        return "fp8_w8a8", told.weight_block_size
    if method == "compressed-tensors" and told.config_groups:
        return _compressed(next(iter(told.config_groups.values())))
    if told.bits in (4, 8):
        return "int4_w4a16" if told.bits == 4 else "int8_w8a16", group
    return None


def _compressed(group: _Group) -> tuple[Precision, BlockShape | None] | None:
    """Types of the first group of layers."""
    weights = group.weights or _Types()
    match weights.type, weights.num_bits, group.input_activations is not None:
        case "float", 8, True:
            return "fp8_w8a8", weights.block_structure
        case "int", 8, True:
            return "int8_w8a8", None
        case "int", (4 | 8) as bits, False:
            return "int4_w4a16" if bits == 4 else "int8_w8a16", (0, max(weights.group_size or 0, 0))
    return None

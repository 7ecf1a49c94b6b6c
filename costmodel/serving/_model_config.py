"""Kernels that a model's layers call, read from its ``config.json`` as Hugging Face keeps it.

Names of fields are those of ``transformers`` 5.24, whose models call the same by many names: Mixtral, Qwen,
DeepSeek, GLM, Kimi, MiniMax, gpt-oss, LLaMA 4, ERNIE, DBRX and their kin.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from costmodel.arguments import check_path
from costmodel.errors import CostModelError
from costmodel.reading import is_folder, read_json, refusing
from costmodel.serving._kernel import BlockShape, ExpertProducts, Kernel, Precision, ScaledProduct

_WHAT = "the configuration of a model"
_REMEDY = "Give the config.json that lies beside the model's weights."
_ATTENTION = (
    "Attention, norms, rotary embedding and routing: frameworks take no table for them (SGLang's decode "
    "attention takes `--triton-attention-num-kv-splits`)."
)
_SIXTEEN_BITS = "Products of linear layers in 16 bits: a library runs them, without a table."
_NO_GATE = "Experts without a gate: the kernels that were timed have one."
_WITHOUT_GATE = ("relu2",)  # as Nemotron
_LATENT_OUTPUT = "Products of attention whose output is latent, too: which there are is not read."
_STATES = "Products of linear attention and of state spaces: which there are is not read."
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
    """Fields of all kinds of models, each under one name; 0 where a model has none."""

    model_type: str = ""
    hidden_act: Any = ""
    hidden_size: Size = 0
    intermediate_size: Size = 0
    moe_intermediate_size: Size = 0
    dense_intermediate_size: Size = 0
    shared_expert_intermediate_size: Size = 0
    num_attention_heads: Size = 0
    num_key_value_heads: Size = 0
    head_dim: Size = 0
    num_experts: Experts = 0
    num_experts_per_tok: Size = 0
    n_shared_experts: Size = 0
    first_k_dense_replace: Size = 0
    moe_layer_interval: Size = 1
    mlp_only_layers: list[int] = []
    mlp_layer_types: list[str] = []
    attn_output_gate: bool | None = None
    q_lora_rank: Size = 0
    kv_lora_rank: Size = 0
    o_lora_rank: Size = 0
    qk_nope_head_dim: Size = 0
    qk_rope_head_dim: Size = 0
    v_head_dim: Size = 0
    index_n_heads: Size = 0
    index_head_dim: Size = 0
    quantization_config: _Quantization = _Quantization()

    @property
    def has_experts(self) -> bool:
        return self.num_experts > 1

    @property
    def has_dense_layers(self) -> bool:
        """Whether some feed-forward layers have no experts."""
        return bool(
            not self.has_experts
            or self.first_k_dense_replace
            or self.moe_layer_interval > 1
            or self.mlp_only_layers
            or "dense" in self.mlp_layer_types
        )

    @property
    def has_gated_attention(self) -> bool:
        """Whether a query has a gate beside it: Qwen3-Next and later do not always say it."""
        if self.attn_output_gate is None:
            return self.model_type.startswith(("qwen3_next", "qwen3_5"))
        return self.attn_output_gate

    @property
    def width(self) -> int:
        """Width of an expert."""
        return self.moe_intermediate_size or self.intermediate_size

    @property
    def shared_width(self) -> int:
        """Width of what all tokens choose beside their experts."""
        return self.shared_expert_intermediate_size or self.width * self.n_shared_experts


# What other models call the same; the first that is there counts.
_OTHER_NAMES = {
    "hidden_act": ("mlp_hidden_act",),
    "hidden_size": ("d_model",),
    "num_attention_heads": ("n_heads",),
    "num_key_value_heads": ("kv_n_heads", "num_attention_groups"),
    "intermediate_size": ("ffn_hidden_size",),
    "moe_intermediate_size": ("expert_ffn_hidden_size",),
    "dense_intermediate_size": ("intermediate_size_mlp", "prefix_dense_intermediate_size"),
    "shared_expert_intermediate_size": (
        *("moe_shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim"),
    ),
    "num_experts": ("n_routed_experts", "num_local_experts", "moe_num_experts"),
    "num_experts_per_tok": (
        *("experts_per_token", "num_experts_per_token", "moe_k", "moe_topk", "moe_top_k"),
    ),
    "n_shared_experts": ("num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "first_k_dense_replace": ("num_dense_layers", "moe_layer_start_index"),
    "moe_layer_interval": (*("interleave_moe_layer_step", "decoder_sparse_step", "expert_layer_period"),),
}
# Of a model that also sees or hears: where it tells of its language model; and where others tell sizes.
_LANGUAGE = ("thinker_config", "text_config", "language_config", "llm_config")
_PARTS = ("ffn_config", "attn_config")
# Layers whose products are not those of attention; told by a field that nothing else has.
_OTHER_LAYERS = (
    "linear_num_value_heads",
    "linear_attn_config",
    "mamba_d_state",
    "ssm_state_size",
    "conv_L_cache",
)


def _language_model(told: dict[str, Any]) -> dict[str, Any]:
    """Return what a configuration tells of the language model, each field under one name.

    A list is told as its only element where all layers are alike.
    """
    for part in _LANGUAGE:
        if isinstance(inner := told.get(part), dict):
            kept = {name: told[name] for name in ("model_type", "quantization_config") if told.get(name)}
            whole = {name: each for name, each in told.items() if name != part}
            return _language_model({**whole, **inner, **kept})
    parts = [told[name] for name in _PARTS if isinstance(told.get(name), dict)]
    flat = {name: each for fields in (*parts, told) for name, each in fields.items() if each is not None}
    if isinstance(with_experts := flat.get("moe_layer_freq"), list):
        flat["mlp_layer_types"] = ["sparse" if each else "dense" for each in with_experts]
    for name, others in _OTHER_NAMES.items():
        values = [flat[each] for each in (name, *others) if flat.get(each)]
        flat |= {name: _alike(values[0])} if values else {}
    return flat


def _alike(told: Any) -> Any:
    return told[0] if isinstance(told, list) and told and told.count(told[0]) == len(told) else told


def read_served_model(
    path: Path | str, *, tensor_parallel: int = 1, expert_parallel: int = 1, fuses_shared: bool = False
) -> ServedModel:
    """Read a model's kernels.

    Args:
        path: Its ``config.json``, or the folder with it.
        tensor_parallel: GPUs that share each expert and each product.
        expert_parallel: GPUs that share the experts out.
        fuses_shared: Whether the framework may count a shared expert among the others, as SGLang does.

    Raises:
        CostModelError: The file cannot be read, is of no such model, or does not divide by so many GPUs.
    """
    place = check_path("model", path)
    file = place / "config.json" if is_folder(place) else place
    told: dict[str, Any] = read_json(file, dict[str, Any], _WHAT, remedy=_REMEDY)
    with refusing(file, _WHAT, _REMEDY):
        fields = _language_model(told)
        config = msgspec.convert(fields, _Config)
    if not config.hidden_size or not config.num_attention_heads:
        raise CostModelError(
            f"{file} must be the configuration of a language model, with hidden_size and "
            f"num_attention_heads, but lacks them. {_REMEDY}"
        )
    layers = _Layers(file, config, (tensor_parallel, expert_parallel))
    kernels = dict(layers.kernels())
    if (
        fuses_shared
        and config.n_shared_experts == 1
        and isinstance(own := kernels.get("experts"), ExpertProducts)
    ):
        kernels["experts, with the shared one"] = replace(own, experts=own.experts + 1, chosen=own.chosen + 1)
    left_out = (*layers.left_out, *([_STATES] if any(map(fields.get, _OTHER_LAYERS)) else ()))
    return ServedModel(config.model_type or file.parent.name, kernels, left_out)


class _Layers:
    """The layers of a model on one of the GPUs that share it."""

    def __init__(self, file: Path, config: _Config, parallel: tuple[int, int]) -> None:
        self._file, self._config = file, config
        self._tensor_parallel, self._expert_parallel = parallel
        self._types = _types(config.quantization_config)
        self._method = config.quantization_config.quant_method
        self.left_out = [_ATTENTION]

    def kernels(self) -> Iterator[tuple[str, Kernel]]:
        """Yield each kernel, and what of a layer it is for."""
        precision, block = self._types or ("", None)
        if self._config.has_experts and self._config.hidden_act in _WITHOUT_GATE:
            self.left_out.append(_NO_GATE)
        elif self._config.has_experts and self._types:
            yield "experts", self._experts(precision, block)
        elif self._config.has_experts:
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
        if config.num_experts_per_tok > config.num_experts:
            raise CostModelError(
                f"{self._file}: a token must choose at most as many experts as there are "
                f"({config.num_experts}), but num_experts_per_tok is {config.num_experts_per_tok}. {_REMEDY}"
            )
        own = self._share("the number of experts", config.num_experts, self._expert_parallel)
        return ExpertProducts(
            own,
            min(config.num_experts_per_tok, own),  # those of a token that are elsewhere are no work here
            self._of_gpu("the width of an expert", config.width),
            config.hidden_size,
            precision,
            block,
        )

    def _products(self) -> Iterator[tuple[str, int, int]]:
        """Yield the products of linear layers: name, results and elements of a token."""
        config = self._config
        if config.o_lora_rank:
            self.left_out.append(_LATENT_OUTPUT)
        else:
            yield from self._latent_attention() if config.kv_lora_rank else self._attention()
        if config.has_dense_layers:
            yield from self._mlp("dense", config.dense_intermediate_size or config.intermediate_size)
        if config.has_experts and config.shared_width:
            yield from self._mlp("shared expert", config.shared_width)

    def _mlp(self, name: str, width: int) -> Iterator[tuple[str, int, int]]:
        own, hidden = self._of_gpu(f"the width of the {name} layer", width), self._config.hidden_size
        yield f"{name}, gate and up", 2 * own, hidden
        yield f"{name}, down", hidden, own

    def _attention(self) -> Iterator[tuple[str, int, int]]:
        config, heads = self._config, self._config.num_attention_heads
        size = config.head_dim or config.hidden_size // heads
        value = config.v_head_dim or size
        own = self._of_gpu("the number of heads", heads)
        keys = max(1, (config.num_key_value_heads or heads) // self._tensor_parallel)
        queries = 2 * own if config.has_gated_attention else own
        yield "attention, query, key and value", queries * size + keys * (size + value), config.hidden_size
        yield "attention, output", config.hidden_size, own * value

    def _latent_attention(self) -> Iterator[tuple[str, int, int]]:
        """Of DeepSeek: queries and keys come from latent vectors that all heads share."""
        config, hidden = self._config, self._config.hidden_size
        own = self._of_gpu("the number of heads", config.num_attention_heads)
        plain, rotary, value = config.qk_nope_head_dim, config.qk_rope_head_dim, config.v_head_dim
        query, latent = config.q_lora_rank, config.kv_lora_rank
        yield "attention, to latent vectors", query + latent + rotary, hidden
        yield "attention, query", own * (plain + rotary), query or hidden
        yield "attention, key and value", own * (plain + value), latent
        yield "attention, output", hidden, own * value
        if config.index_n_heads:  # all GPUs have all of it
            yield (
                "attention, query of the index",
                config.index_n_heads * config.index_head_dim,
                query or hidden,
            )

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

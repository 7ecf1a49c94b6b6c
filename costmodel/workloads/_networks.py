"""The networks that workloads are taken from, by name. TVM loads when one is built."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

Builder = Callable[[str], Any]  # dtype to the network's Relax module, whose function is ``forward``

_IMAGE_BATCHES = (1, 8)
_BERT_SIZES = {"bert_base": (768, 12, 12), "bert_large": (1024, 16, 24)}  # size, heads, layers
_SEQUENCES = (64, 128, 256, 384, 512)
# Size, heads, key heads, inner size, layers: TinyLlama-1.1B and LLaMA-2-7B.
_DECODER_SIZES = {
    "decoder_1b": (2048, 32, 4, 5632, 22),
    "decoder_7b": (4096, 32, 32, 11008, 32),
}
_PROMPTS = (128, 512)
_DECODED_AT = (512, 2048)
_DLRM_BATCHES = (32, 256, 2048)


def _export_vision(name: str, batch: int, dtype: str) -> Any:
    from costmodel.workloads._network_layers import export_network, layout_for
    from costmodel.workloads._network_models import GoogLeNet, MobileNetV2, ResNet50

    layout = layout_for(dtype)
    network = {"resnet50": ResNet50, "mobilenet_v2": MobileNetV2, "googlenet": GoogLeNet}[name](layout)
    image = (batch, 3, 224, 224) if layout == "NCHW" else (batch, 224, 224, 3)
    return export_network(network, dtype, image=image)


def _export_bert(name: str, tokens: int, dtype: str) -> Any:
    from costmodel.workloads._network_layers import export_network
    from costmodel.workloads._network_models import Bert

    size, heads, layers = _BERT_SIZES[name]
    return export_network(Bert(size, heads, layers), dtype, x=(tokens, size))


def _export_prefill(name: str, tokens: int, dtype: str) -> Any:
    from costmodel.workloads._network_layers import export_network
    from costmodel.workloads._network_models import Prefill

    size, heads, *_ = _DECODER_SIZES[name]
    turns = (tokens, size // heads)
    network = Prefill(*_DECODER_SIZES[name])
    return export_network(network, dtype, x=(tokens, size), cosine=turns, sine=turns, mask=(tokens, tokens))


def _export_decode(name: str, seen: int, dtype: str) -> Any:
    from costmodel.workloads._network_layers import export_network
    from costmodel.workloads._network_models import Decode

    size, heads, key_heads, *_ = _DECODER_SIZES[name]
    turns, cache = (1, size // heads), (key_heads, seen - 1, size // heads)
    network = Decode(*_DECODER_SIZES[name])
    return export_network(network, dtype, x=(1, size), cosine=turns, sine=turns, keys=cache, values=cache)


def _export_dlrm(batch: int, dtype: str) -> Any:
    from costmodel.workloads._network_layers import export_network
    from costmodel.workloads._network_models import TABLES, WIDTH, Dlrm

    return export_network(Dlrm(), dtype, numbers=(batch, 13), embeddings=(batch, TABLES, WIDTH))


NETWORKS: Mapping[str, Builder] = {
    **{
        f"{name}-n{batch}": partial(_export_vision, name, batch)
        for name in ("resnet50", "mobilenet_v2", "googlenet")
        for batch in _IMAGE_BATCHES
    },
    **{
        f"{name}-s{tokens}": partial(_export_bert, name, tokens)
        for name in _BERT_SIZES
        for tokens in _SEQUENCES
    },
    **{
        f"{name}-prefill{tokens}": partial(_export_prefill, name, tokens)
        for name in _DECODER_SIZES
        for tokens in _PROMPTS
    },
    **{
        f"{name}-decode{seen}": partial(_export_decode, name, seen)
        for name in _DECODER_SIZES
        for seen in _DECODED_AT
    },
    **{f"dlrm-n{batch}": partial(_export_dlrm, batch) for batch in _DLRM_BATCHES},
}

"""The networks that workloads are taken from, by name, and what was extracted from each.

That is kept as data, which takes no TVM to read; TVM loads when a network is built.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any

import msgspec

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.records._workload import Workload
from costmodel.report._progress import track

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


DTYPES = ("float32", "float16")


class Extraction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Kernels of a network, with the number of launches in one run of the network.

    Attributes:
        network: Name of the network, a key of ``NETWORKS``.
        dtype: Element type.
        workloads: Number of launches of each workload, by name.
        left_out: Number of launches of each other kernel, such as ``max_pool2d``, by name.
    """

    network: str
    dtype: str
    workloads: dict[str, int]
    left_out: dict[str, int]


def extract_networks(networks: Sequence[str] = (), dtype: str | None = None) -> list[Extraction]:
    """Extract the workloads of several networks, and show progress.

    Args:
        networks: Names, keys of ``NETWORKS``. Default: all.
        dtype: Element type. Default: float32 and float16.

    Raises:
        CostModelError: If there is no such network, or TVM is not installed.
    """
    dtypes = (dtype,) if dtype else DTYPES
    names = networks or list(NETWORKS)
    return [
        extract_workloads(name, each) for name in track(names, "extracting", len(names)) for each in dtypes
    ]


def extract_workloads(network: str, dtype: str) -> Extraction:
    """Build a network with TVM Relax, fuse it and recognise its kernels. This takes seconds.

    Example:
        >>> extract_workloads("mobilenet_v2-n1", "float16").left_out
        {'mean': 1}

    Raises:
        CostModelError: If there is no such network, or TVM is not installed.
    """
    if network not in NETWORKS:
        raise CostModelError(f"The network must be one of {', '.join(NETWORKS)}, but got {network!r}.")
    try:
        from costmodel.workloads._recognise import fuse_operators, kernel_calls, recognise
    except ModuleNotFoundError as error:
        raise MissingExtraError("Extracting workloads", "tvm") from error
    module = fuse_operators(NETWORKS[network](dtype))
    workloads: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for name, count in kernel_calls(module).items():
        workload = recognise(module[name])
        if workload is None:
            without_numbers = re.sub(r"\d+(?=_|$)", "", name)  # these tell namesakes apart
            left_out[without_numbers] += count
        else:
            workloads[workload.name] += count
    return Extraction(network, dtype, dict(sorted(workloads.items())), dict(sorted(left_out.items())))


class CatalogueEntry(msgspec.Struct, frozen=True):
    """A workload and where it occurs.

    Attributes:
        workload: The workload.
        networks: By network, the number of launches in one run.
    """

    workload: Workload
    networks: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON values, with the arithmetic and the fewest bytes of one run."""
        workload = self.workload
        return {
            "workload": workload.name,
            "flops": workload.flops,
            "min_bytes": workload.min_bytes,
            "networks": self.networks,
        }


def extractions() -> list[Extraction]:
    """Return the shipped extractions, one per network and dtype (``costmodel workloads extract --json``)."""
    data = files("costmodel.workloads").joinpath("catalogue.json").read_bytes()
    return msgspec.json.decode(data, type=list[Extraction])


def catalogue(network: str | None = None, dtype: str | None = None) -> list[CatalogueEntry]:
    """Return the workloads of networks, sorted by kind and arithmetic.

    Args:
        network: A network such as ``resnet50-n8``, or all networks of one name such as ``resnet50``. Default:
            all.
        dtype: An element type. Default: all.

    Raises:
        CostModelError: If there is no such network.
    """
    counts: dict[str, dict[str, int]] = {}
    for extraction in _extractions_of(network):
        for name, count in extraction.workloads.items() if dtype in (None, extraction.dtype) else ():
            counts.setdefault(name, {})[extraction.network] = count
    entries = [CatalogueEntry(Workload.parse(name), networks) for name, networks in counts.items()]
    return sorted(entries, key=lambda entry: (entry.workload.kind, entry.workload.flops, entry.workload.name))


def _extractions_of(network: str | None) -> list[Extraction]:
    known = extractions()
    found = [each for each in known if network in (None, each.network, each.network.partition("-")[0])]
    if not found:
        names = ", ".join(dict.fromkeys(each.network for each in known))
        raise CostModelError(
            f"The network must be one of {names}, or its part before the dash, but got {network!r}."
        )
    return found

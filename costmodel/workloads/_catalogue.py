"""What was extracted from every network, kept as data: reading it takes no TVM."""

import re
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import msgspec

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.records._workload import Workload
from costmodel.report._progress import track
from costmodel.workloads._networks import NETWORKS

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

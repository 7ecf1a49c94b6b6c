"""What was extracted from every network, kept as data: reading it takes no TVM."""

from importlib.resources import files
from typing import Any

import msgspec

from costmodel.errors import CostModelError
from costmodel.records._workload import Workload
from costmodel.workloads._extract import Extraction


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

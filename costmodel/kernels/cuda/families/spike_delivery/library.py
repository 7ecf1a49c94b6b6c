"""The delivery as a user of PyTorch would write it, of calls that a CUDA graph can hold."""

from collections.abc import Mapping

import torch

Tensors = Mapping[str, torch.Tensor]


def prepare(tensors: Tensors) -> dict[str, torch.Tensor]:
    """What stays the same over steps: the synapses as a CSR matrix of float32, and as lists.

    Row ``slot * n + target`` of the matrix has the weights onto a sum of the ring, column i from neuron i.
    """
    current, starts = tensors["current"], tensors["column_starts"].long()
    neurons = len(starts) - 1
    words = tensors["incoming"][: starts[-1]].view(torch.int32).long()
    targets = torch.repeat_interleave(torch.arange(neurons, device=words.device), starts.diff())
    slots = len(current) // neurons
    now = int(tensors["now"])
    rows = (now + 1 + (words >> 28 & 0xF)) % slots * neurons + targets
    sources, weights = words >> 8 & 0xFFFFF, (words & 0xFF ^ 0x80) - 0x80
    shape = (len(current), neurons)
    places = torch.stack([rows, sources])
    summed = torch.sparse_coo_tensor(places, weights.float(), shape, check_invariants=True).coalesce()
    csr = summed.to_sparse_csr()
    starts, columns = csr.crow_indices().int(), csr.col_indices().int()  # 8 bytes an index would take longer
    matrix = torch.sparse_csr_tensor(starts, columns, csr.values(), shape, check_invariants=True)
    bits = tensors["spiking"].view(torch.int32)[:, None] >> torch.arange(32, device=words.device) & 1
    spiked = bits.reshape(-1)[:neurons]
    return {
        "current": current,
        "matrix": matrix,
        "spiked": spiked.int(),
        "spiked_float": spiked.float(),
        "rows": rows,
        "sources": sources,
        "weights": weights.int(),
    }


def spmv(prepared: Tensors) -> torch.Tensor:
    """A sparse matrix times the vector of spikes: exact while sums are below 2^24."""
    return prepared["current"] + (prepared["matrix"] @ prepared["spiked_float"]).int()


def index_add(prepared: Tensors) -> torch.Tensor:
    """Every synapse of the network adds, that of a neuron that did not spike 0."""
    added = prepared["weights"] * prepared["spiked"][prepared["sources"]]
    return prepared["current"].index_add(0, prepared["rows"], added)

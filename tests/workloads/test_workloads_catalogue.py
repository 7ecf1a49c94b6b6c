"""The shipped catalogue: complete, and what extraction gives."""

import pytest

from costmodel.errors import CostModelError
from costmodel.records import Workload
from costmodel.workloads import catalogue, extract_workloads
from costmodel.workloads._catalogue import NETWORKS, Extraction, extractions

pytestmark = pytest.mark.white_box


def extraction_of(network: str, dtype: str) -> Extraction:
    (found,) = (each for each in extractions() if (each.network, each.dtype) == (network, dtype))
    return found


def test_every_network_is_there_in_both_dtypes() -> None:
    found = [(each.network, each.dtype) for each in extractions()]
    assert len(set(found)) == len(found)
    assert set(found) == {(network, dtype) for network in NETWORKS for dtype in ("float32", "float16")}


def test_it_holds_what_networks_launch() -> None:
    assert len(catalogue()) > 500
    assert (
        extraction_of("bert_large-s384", "float16").workloads["matmul_bias_gelu-m384-n4096-k1024-float16"]
        == 24
    )


def test_it_joins_networks_and_is_sorted() -> None:
    entries = {entry.workload.name: entry.networks for entry in catalogue()}
    assert entries["matmul_bias_gelu-m128-n3072-k768"] == {"bert_base-s128": 12}
    assert entries["conv2d_bias_relu-n1-c3-h224-w224-o64-k7-s2"] == {"resnet50-n1": 1, "googlenet-n1": 1}
    keys = [(entry.workload.kind, entry.workload.flops) for entry in catalogue()]
    assert keys == sorted(keys)


def test_it_can_be_narrowed() -> None:
    one, all_sizes = catalogue("dlrm-n32"), catalogue("dlrm")
    assert {name for entry in all_sizes for name in entry.networks} == {"dlrm-n32", "dlrm-n256", "dlrm-n2048"}
    assert 0 < len(one) < len(all_sizes)
    halves = catalogue("dlrm", "float16")
    assert {entry.workload.dtype for entry in halves} == {"float16"}
    assert 2 * len(halves) == len(all_sizes)


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(
        CostModelError, match=r"resnet50-n1, .*, or its part before the dash, but got 'resnet'"
    ):
        catalogue("resnet")
    with pytest.raises(CostModelError, match=r"must be one of resnet50-n1, .* but got 'resnet'"):
        extract_workloads("resnet", "float32")


def products_of(network: str, dtype: str = "float32") -> int:
    """Multiply-adds of products and convolutions, without epilogues."""
    counts = extraction_of(network, dtype).workloads.items()
    anchors = [(Workload.parse(name), count) for name, count in counts]
    plain = [(Workload(each.operator.anchor, each.dims), count) for each, count in anchors]
    return sum(
        each.flops // 2 * count for each, count in plain if not each.kind.endswith(("norm", "softmax"))
    )


# Multiply-adds that the papers or their reference implementations state.
STATED = {
    "resnet50-n1": 4.09e9,
    "mobilenet_v2-n1": 300e6,
    "googlenet-n1": 1.58e9,
    "bert_base-s128": 12 * (128 * 12 * 768**2 + 2 * 128 * 128 * 768),
    "decoder_1b-prefill128": (
        22 * (128 * (2 * 2048**2 + 2 * 2048 * 256 + 3 * 2048 * 5632) + 2 * 128**2 * 2048) + 2048 * 32000
    ),
    "dlrm-n32": (
        32 * (13 * 512 + 512 * 256 + 256 * 128 + 27 * 27 * 128 + 479 * 1024 + 1024 * 1536 + 512 * 256 + 256)
    ),
}


@pytest.mark.parametrize("network", STATED)
def test_a_network_has_the_arithmetic_that_its_paper_states(network: str) -> None:
    assert products_of(network) == pytest.approx(STATED[network], rel=0.01)


@pytest.mark.parametrize("network", NETWORKS)
def test_both_dtypes_have_the_same_kernels(network: str) -> None:
    single, half = (extraction_of(network, dtype) for dtype in ("float32", "float16"))
    assert products_of(network, "float16") == products_of(network, "float32")
    assert sum(half.workloads.values()) == sum(single.workloads.values())
    assert half.left_out == single.left_out


@pytest.mark.tvm
@pytest.mark.parametrize(("network", "dtype"), [("mobilenet_v2-n1", "float16"), ("dlrm-n32", "float32")])
def test_extraction_gives_what_is_shipped(network: str, dtype: str) -> None:
    pytest.importorskip("tvm")
    assert extract_workloads(network, dtype) == extraction_of(network, dtype)


@pytest.mark.tvm
def test_every_kernel_is_told() -> None:
    pytest.importorskip("tvm")
    from costmodel.workloads._recognise import fuse_operators, kernel_calls

    for network in ("mobilenet_v2-n1", "dlrm-n32"):
        told = extract_workloads(network, "float32")
        calls = kernel_calls(fuse_operators(NETWORKS[network]("float32")))
        assert sum(told.workloads.values()) + sum(told.left_out.values()) == calls.total()

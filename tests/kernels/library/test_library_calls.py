"""What PyTorch computes is what NumPy computes, for every operator and call."""

from pathlib import Path

import numpy as np
import pytest

from costmodel.kernels._reference import agrees
from costmodel.kernels.library._source import LibrarySource, LibrarySpace, load_call
from costmodel.records import Config, Outcome, Workload
from costmodel.records._operators import OPERATORS

pytestmark = [pytest.mark.torch, pytest.mark.white_box]

# No two alike, and a stride that leaves pixels out.
_SIZES = {"b": 3, "m": 24, "n": 40, "k": 32}
_IMAGE = {"n": 2, "c": 6, "h": 9, "w": 7, "o": 5, "k": 3, "s": 2}


def small(kind: str, dtype: str = "float32") -> Workload:
    dims = OPERATORS[kind].dims
    return Workload(kind, {dim: (_IMAGE if "h" in dims else _SIZES)[dim] for dim in dims}, dtype)


def computed(workload: Workload, config: Config, folder: Path) -> "tuple[bool, np.ndarray]":
    """Whether a call wrote the output that it was given, and the result."""
    import torch

    source = LibrarySource()
    built = source.build(source.space(workload, "cpu").candidate(config), "cpu", "", folder)
    assert built.outcome is Outcome.OK
    assert built.library
    tensors = [torch.from_numpy(array) for array in source.arguments(workload)]
    result = load_call(built.library)(tensors)
    return result is tensors[-1], result.numpy()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", OPERATORS)
def test_every_call_computes_the_operator(tmp_path: Path, kind: str, dtype: str) -> None:
    workload, source = small(kind, dtype), LibrarySource()
    assert source.makes(workload, "cpu")
    (reference,) = source.reference(workload) or []
    for sketch in source.space(workload, "cpu").sketches:
        for config in sketch.configs:
            _, output = computed(workload, config, tmp_path)
            assert output.shape == reference.shape
            assert output.dtype == dtype
            assert output.flags.c_contiguous
            assert agrees(output, reference, source.tolerance(workload) / 5), config


@pytest.mark.parametrize(
    "kind", ["matmul_bias_gelu", "batch_matmul_silu_mul", "matmul_bias_add_relu", "softmax"]
)
def test_nothing_is_copied_where_pytorch_can_write_into_the_output(tmp_path: Path, kind: str) -> None:
    workload = small(kind)
    for config in LibrarySpace(workload, "cpu").sketches[0].configs:
        wrote, _ = computed(workload, config, tmp_path)
        assert wrote, config


def test_a_window_of_one_pixel_and_a_single_channel_stay_in_their_layout(tmp_path: Path) -> None:
    source = LibrarySource()
    for name in ("conv2d_nhwc_relu-n1-c1-h5-w6-o3-k1-s1", "depthwise_conv2d_nhwc_bias-n2-c1-h1-w1-k3-s1"):
        workload = Workload.parse(name)
        (reference,) = source.reference(workload) or []
        _, output = computed(workload, Config({"call": "eager"}), tmp_path)
        assert output.flags.c_contiguous
        assert agrees(output, reference, source.tolerance(workload))


def test_float32_means_float32(tmp_path: Path) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    computed(small("matmul"), Config({"call": "eager"}), tmp_path)
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32

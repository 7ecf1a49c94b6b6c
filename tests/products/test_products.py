"""Products: what is chosen on how many SMs, what is expected, and what is refused."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.learners._complete_trees import walk_trees
from costmodel.products import Kernel, Product, choose, explain, predict_seconds, top
from costmodel.products._candidates import list_candidates
from costmodel.products._columns import COLUMNS, KIND_PLACES
from costmodel.products._core import TERMS, Rates, time_terms
from costmodel.products._cublaslt_tiles import describe_algorithm, tile_sizes
from costmodel.products._model import SHIPPED, ProductModel
from costmodel.products._product import LAYOUTS, OPERAND_BYTES

pytestmark = pytest.mark.white_box

H200 = "NVIDIA H200"
RATES = Rates(5e12, 6e14, 7e10, 6e12, 3e12, 6e10, 7e-7, 8e-7, 2e-6, 50e6)
LARGE = Product(4096, 4096, 4096)
SHAPES = [
    Product(1, 4096, 14336),
    Product(77, 1001, 333, dtype="float32", layout="tn"),
    Product(8192, 8192, 8192, dtype="float8_e4m3"),
    Product(128, 64, 1024, batch=96, layout="nn", epilogue="bias_gelu"),
]


def terms(product: Product, kernel: Kernel, sms: int) -> dict[str, float]:
    return dict(zip(TERMS, time_terms(product, [kernel], sms, RATES, 132)[0].tolist(), strict=True))


@pytest.mark.parametrize("product", SHAPES)
@pytest.mark.parametrize("sms", [8, 100, 132])
def test_the_best_of_all_back_ends_is_chosen_with_an_interval(product: Product, sms: int) -> None:
    choice = choose(product, sms)
    best = top(product, sms, count=5)
    assert best[0] == choice
    assert all(a.seconds <= b.seconds for a, b in pairwise(best))
    assert 0 < choice.low_s < choice.seconds < choice.high_s
    assert predict_seconds(product, [each.kernel for each in best], sms) == pytest.approx(
        [each.seconds for each in best]
    )
    assert f"{choice.seconds * 1e6:.1f} us" in explain(product, sms)


def test_algorithms_that_cublaslt_offers_take_the_place_of_guesses() -> None:
    offered = tuple(
        describe_algorithm(
            LARGE, "told", i, {"id": 66, "tile": tile, "stages": 35, "splits": 1, "custom": 1, "cluster": 4}
        )
        for i, tile in enumerate((24, 15))  # 256 x 128 and 64 x 64
    )
    ranked = [each.kernel for each in top(LARGE, 64, offered=offered, count=1000)]
    assert [kernel for kernel in ranked if kernel.backend == "cublaslt"] == list(offered)
    assert {kernel.backend for kernel in ranked} == {"cublaslt", "triton", "torch"}


def test_with_a_margin_the_usual_algorithm_stays_unless_another_is_much_faster() -> None:
    config = {"id": 66, "stages": 35, "splits": 1, "custom": 1, "cluster": 4}
    offered = tuple(
        describe_algorithm(LARGE, "told", i, {**config, "tile": tile})
        for i, tile in enumerate((15, 24))  # 64 x 64 and 256 x 128
    )
    best, *others = top(LARGE, 64, offered=offered, count=1000)
    usual = next(each for each in others if each.kernel == offered[0])
    gain = usual.seconds / best.seconds
    assert gain > 1
    assert choose(LARGE, 64, offered=offered) == best
    assert choose(LARGE, 64, offered=offered, margin=1 + 0.99 * (gain - 1)) == best
    assert choose(LARGE, 64, offered=offered, margin=1.01 * gain) == usual
    with pytest.raises(CostModelError, match="margin must be a number from 1"):
        choose(LARGE, 64, margin=0.9)
    assert choose(LARGE, margin=1e6).kernel == Kernel("cublaslt")


def test_what_was_asked_before_is_remembered() -> None:
    assert top(SHAPES[0], 32)[0] is choose(SHAPES[0], 32)


def test_a_kernel_is_judged_alone() -> None:
    kernels = list_candidates(LARGE, 64, 132)
    together = predict_seconds(LARGE, kernels, 64)
    assert [predict_seconds(LARGE, [kernel], 64)[0] for kernel in kernels] == pytest.approx(together)


def test_no_product_is_faster_than_the_operations_that_all_sms_do() -> None:
    assert choose(Product(8192, 8192, 8192)).seconds > 2 * 8192**3 / 1e15


def test_rows_that_are_copied_one_by_one_need_registers_that_a_thread_has_not() -> None:
    kernel = Kernel("triton", "plain", 64, 256, 64, 3, 4)  # 128 sums a thread; 160 elements of a slab
    aligned, odd = (
        predict_seconds(Product(200, n, k), [kernel], 16)[0] for n, k in ((896, 3584), (904, 3576))
    )
    assert odd > 4 * aligned
    small = Kernel("triton", "plain", 16, 64, 64, 3, 4)
    aligned, odd = (
        predict_seconds(Product(200, n, k), [small], 16)[0] for n, k in ((896, 3584), (904, 3576))
    )
    assert odd < 4 * aligned
    assert choose(Product(200, 904, 3576), 16).kernel != kernel
    compiled_in = predict_seconds(Product(200, 904, 3576), [kernel], 16, sizes_known=True)[0]
    assert compiled_in < odd / 4  # rows of 16 bytes are aligned, and the compiler sees it


def test_waves_count_on_the_sms_that_are_granted() -> None:
    kernel = Kernel("triton", "plain", 128, 128, 64, 4, 8)  # 1,024 tiles, one on an SM
    assert [terms(LARGE, kernel, sms)["waves"] for sms in (8, 128, 132)] == [128, 8, 8]
    assert terms(LARGE, kernel, 132)["idle"] == pytest.approx(1 - 1024 / (8 * 132))
    shared = Kernel("triton", "stream-k", 128, 128, 64, 4, 8, programs_per_sm=1)
    assert terms(LARGE, shared, 132)["idle"] == 0
    assert terms(LARGE, shared, 132)["total"] < terms(LARGE, kernel, 132)["total"]


def test_a_library_that_is_not_told_its_sms_takes_what_suits_the_whole_device() -> None:
    product = Product(128, 2048, 8192)
    told, untold = (terms(product, Kernel("cublaslt", kind), 8) for kind in ("told", ""))
    assert told["total"] < untold["total"]
    assert told["splits"] < untold["splits"]
    assert terms(product, Kernel("cublaslt", "told"), 132) == terms(product, Kernel("torch"), 132)


def test_more_parts_of_a_sum_cost_more_to_add_up() -> None:
    sums = [
        terms(LARGE, Kernel("triton", "split-k", 64, 64, 64, 4, 4, splits=s), 132)["sums"] for s in (1, 2, 8)
    ]
    assert sums[0] == 0 < sums[1] < sums[2]


@pytest.mark.parametrize("dtype", OPERAND_BYTES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_candidates_differ_and_fit(dtype: str, layout: str) -> None:
    for m, n, k, batch in ((1, 4096, 4096, 1), (197, 768, 3072, 1), (8192, 1024, 64, 1), (64, 64, 33, 12)):
        product = Product(m, n, k, batch, dtype, layout)
        for sms in (8, 132):
            kernels = list_candidates(product, sms, 132)
            assert len(set(kernels)) == len(kernels) <= 90
            assert {kernel[:2] for kernel in kernels} <= set(KIND_PLACES)
            assert np.isfinite(predict_seconds(product, kernels, sms)).all()


def test_tiles_of_cublaslt_are_those_of_its_header() -> None:
    sizes = tile_sizes()
    known = {
        **{20: (128, 128), 35: (256, 32), 36: (8, 128), 71: (32, 192), 116: (64, 192), 143: (88, 64)},
        **{376: (64, 616), 392: (64, 760), 393: (128, 8), 447: (128, 512), 448: (192, 8), 489: (256, 40)},
    }
    assert {number: sizes[number] for number in known} == known
    assert len(set(sizes.values())) == len(sizes)


def test_an_algorithm_of_cublaslt_is_described_by_rows() -> None:
    config = {"id": 66, "tile": 448, "stages": 35, "splits": 3, "custom": 2, "cluster": 4}
    kernel = describe_algorithm(Product(8, 4096, 4096), "told", 1, config)
    assert kernel[2:6] == (8, 192, 64, 8)
    assert kernel[8:] == (3, 0, 1, 66, 2, 4)
    assert describe_algorithm(LARGE, "", 2, {**config, "tile": 9999}) == Kernel("cublaslt", position=2)


def test_trees_are_walked_to_the_leaf_of_each_row() -> None:
    draw = np.random.default_rng(0)
    splits = draw.integers(0, 4, (5, 7)).astype(np.uint8)
    thresholds, leaves, X = draw.normal(size=(5, 7)), draw.normal(size=(5, 8)), draw.normal(size=(20, 4))
    expected = []
    for row in X:
        total = 0.0
        for tree in range(5):
            node = 0
            while node < 7:
                node = 2 * node + 1 + int(row[splits[tree, node]] >= thresholds[tree, node])
            total += leaves[tree, node - 7]
        expected.append(total)
    assert walk_trees(X, splits, thresholds, leaves) == pytest.approx(expected)
    none = np.zeros((0, 1), np.uint8), np.zeros((0, 1)), np.zeros((0, 2))
    assert walk_trees(X, *none).tolist() == [0.0] * 20


def test_a_model_is_saved_whole_and_a_damaged_one_refused(tmp_path: Path) -> None:
    model = ProductModel.load(SHIPPED)
    model.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == SHIPPED.read_bytes()
    (tmp_path / "cut.npz").write_bytes(SHIPPED.read_bytes()[:-100])
    with pytest.raises(CostModelError, match="model of products"):
        ProductModel.load(tmp_path / "cut.npz")
    arrays = {name: getattr(model, name) for name in ProductModel.__dataclass_fields__}
    with pytest.raises(CostModelError, match="fit one another"):
        ProductModel(**{**arrays, "spread": model.spread[:1]})
    with pytest.raises(CostModelError, match="fit one another"):
        ProductModel(**{**arrays, "splits": model.splits[:, :0].astype(np.uint8)})
    assert len(COLUMNS) <= 256  # positions in ``splits`` are bytes


@pytest.mark.parametrize(
    ("product", "sms", "device", "said"),
    [
        (Product(0, 4, 4), 8, H200, "whole numbers"),
        (Product(4, 4, 1 << 31), 8, H200, "whole numbers"),
        (Product(4, 4, True), 8, H200, "whole numbers"),
        (Product(4, 4, 4, dtype="float64"), 8, H200, "dtype"),
        (Product(4, 4, 4, layout="row"), 8, H200, "layout"),
        (Product(4, 4, 4), 0, H200, "from 1 to 132, but got 0"),
        (Product(4, 4, 4), 133, H200, "from 1 to 132, but got 133"),
        (Product(4, 4, 4), 133, H200, "1 to 132"),
        (Product(4, 4, 4), 8, "NVIDIA H100 PCIe", "must be one whose products were measured"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    product: Product, sms: int, device: str, said: str
) -> None:
    with pytest.raises(CostModelError, match=said):
        choose(product, sms, device)


def test_without_pytorch_the_operator_says_what_to_install() -> None:
    code = "import sys; sys.modules['torch'] = None\nfrom costmodel.products import mm"
    failed = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "MissingExtraError: The operator costmodel::mm needs an optional package" in failed.stderr

"""``costmodel::mm``: where there is no GPU that it knows it is PyTorch's product, with its gradients."""

import pytest

torch = pytest.importorskip("torch")

from costmodel.products._operator import _dtype, mm, sure_margin  # noqa: E402 (needs PyTorch)
from costmodel.products._product import Product  # noqa: E402

pytestmark = [pytest.mark.white_box, pytest.mark.torch]


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_it_is_the_product_in_every_layout(transposed: tuple[bool, bool]) -> None:
    a = torch.randn(5, 7).t() if transposed[0] else torch.randn(7, 5)
    b = torch.randn(3, 5).t() if transposed[1] else torch.randn(5, 3)
    torch.testing.assert_close(mm(a, b, 8), a @ b)
    torch.testing.assert_close(torch.ops.costmodel.mm(a[::2], b), a[::2] @ b)


def test_pytorch_accepts_it_as_an_operator() -> None:
    a, b = torch.randn(4, 6, requires_grad=True), torch.randn(6, 2, requires_grad=True)
    torch.library.opcheck(torch.ops.costmodel.mm.default, (a, b, 0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_it_has_gradients(dtype: torch.dtype) -> None:
    a, b = (torch.randn(3, 3, dtype=dtype, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda x, y: mm(x, y, 0), (a, b))
    assert torch.autograd.gradgradcheck(lambda x, y: mm(x, y, 0), (a, b))


def test_results_have_the_dtype_that_the_compiler_was_told() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert mm(torch.ones(2, 2), torch.ones(2, 2), 0).dtype == torch.float32


def test_rounding_is_seen_in_whichever_way_it_was_asked_for() -> None:
    precision, made = torch.backends.cuda.matmul, torch.ones(2, 2)
    assert _dtype(made) == "float32"
    precision.fp32_precision = "tf32"  # reading ``allow_tf32`` raises from here on
    try:
        assert _dtype(made) == "tfloat32"
    finally:
        precision.fp32_precision = "ieee"


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RuntimeError):
        mm(torch.randn(3, 4), torch.randn(3, 4), 0)


def test_pytorchs_call_is_left_sooner_where_more_is_known() -> None:
    known, odd = Product(64, 4096, 4096), Product(64, 4100, 4096)
    wide = known._replace(dtype="float32")
    assert sure_margin(known, 0.2) <= sure_margin(known, 0.5) <= sure_margin(known, 1.0)
    for each in (odd, wide):
        assert all(sure_margin(each, share) >= sure_margin(known, share) for share in (0.2, 0.5, 1.0))

"""``costmodel::mm``: where there is no GPU that it knows it is PyTorch's product, with its gradients."""

import pytest

torch = pytest.importorskip("torch")

from costmodel.products._operator import mm  # noqa: E402 (needs PyTorch)

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


def test_it_has_gradients() -> None:
    a, b = (torch.randn(3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda x, y: mm(x, y, 0), (a, b))


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RuntimeError):
        mm(torch.randn(3, 4), torch.randn(3, 4), 0)

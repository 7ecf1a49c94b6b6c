import triton
import triton.language as tl


@triton.jit
def scale(x, bias, y, done, m, n, factor, BLOCK: tl.constexpr, TWICE: tl.constexpr, FAULT: tl.constexpr):
    tl.static_assert(FAULT != "assertion", "this config is not meant to be")
    row = tl.program_id(0)
    size = n
    if FAULT == "once":
        size = tl.where(tl.load(done + row) == 0, n, 0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + at, mask=at < n).to(tl.float32) * factor
        if FAULT == "wrong":
            value += 1.0
        tl.store(y + row * n + at, (value + TWICE * tl.load(bias)).to(y.dtype.element_ty), mask=at < size)
    if FAULT == "once":
        tl.store(done + row, 1.0)
    if FAULT == "leaves":
        tl.store(y + row * n, tl.load(y + row * n) + tl.load(done + row))
        tl.store(done + row, float("nan"))

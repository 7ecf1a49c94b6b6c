"""Ways to run a network."""

EAGER, DEFAULT, WHOLE, PART, OURS, UNTIMED = (
    "eager",
    "default",
    "max-autotune, whole GPU",
    "max-autotune, part",
    "ours",
    "ours, nothing timed",
)
PRODUCTS = "ours, products alone"  # other kernels by Inductor's rules
AGAIN = "ours, again"
SHIPPED = "max-autotune, as shipped"  # compiled only: with the assembler of PyTorch 2.11's workers alone

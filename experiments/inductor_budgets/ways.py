"""Ways to run a network."""

EAGER, DEFAULT, WHOLE, PART, OURS, UNTIMED = (
    "eager",
    "default",
    "max-autotune, whole GPU",
    "max-autotune, part",
    "ours",
    "ours, nothing timed",
)
LISTS = "ours, Inductor's blocks"  # short lists of block sizes for other kernels, as of PyTorch
AGAIN = "ours, Inductor's blocks, again"
SHIPPED = "max-autotune, as shipped"  # compiled only: with the assembler of PyTorch 2.11's workers alone

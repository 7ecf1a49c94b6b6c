"""Ways to run a network."""

EAGER, DEFAULT, WHOLE, PART, OURS, UNTIMED = (
    "eager",
    "default",
    "max-autotune, whole GPU",
    "max-autotune, part",
    "ours",
    "ours, nothing timed",
)
TUNED = "ours, all timed"  # other kernels tuned step by step, and fusion timed, as max-autotune does
BLOCKS = "ours, three blocks timed"  # the model's first three of other kernels
AGAIN = "ours, again"
SHIPPED = "max-autotune, as shipped"  # compiled only: with the assembler of PyTorch 2.11's workers alone

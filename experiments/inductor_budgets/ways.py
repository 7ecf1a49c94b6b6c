"""Ways to run a network."""

EAGER, DEFAULT, WHOLE, PART, OURS, UNTIMED = (
    "eager",
    "default",
    "max-autotune, whole GPU",
    "max-autotune, part",
    "ours",
    "ours, nothing timed",
)
AGAIN = "ours, again"

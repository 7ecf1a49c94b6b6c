"""Code that runs in the process that holds the device: timing, SM partitions, state."""

from costmodel.former import answer_inside

__getattr__ = answer_inside(__name__)

"""Latencies carried over to other hardware by waves, traffic and rates."""

from costmodel.transfer.hardware._carry import Carried, carry_over, carry_parts
from costmodel.transfer.hardware._spread import Spread
from costmodel.transfer.hardware._swept import draw_swept

__all__ = ["Carried", "Spread", "carry_over", "carry_parts", "draw_swept"]

"""What-if transforms: each maps a kernel graph to another one, and states its assumptions."""

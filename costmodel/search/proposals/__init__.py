"""Proposals from a design space, by a joint model of its measurements or a model of other workloads."""

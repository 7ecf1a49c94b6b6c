"""Latencies carried over to other hardware by waves, traffic and rates."""

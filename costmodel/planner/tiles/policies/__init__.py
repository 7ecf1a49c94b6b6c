"""Policies of synchronisation between the tiles of two dependent kernels."""

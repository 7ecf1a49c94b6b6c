"""Entries of the benchmark that come with it."""

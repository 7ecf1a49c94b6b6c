"""Runners: what measures candidates, or serves what was measured."""

"""Checks that find errors in measurements."""

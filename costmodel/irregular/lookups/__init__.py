"""Lookups in a table of rows: how popular rows are, how long bags are, and what comes of both."""

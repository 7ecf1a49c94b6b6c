"""Readers of record stores, datasets and files of other programs; see ``_read.READERS``."""

"""Guarded transfer: limits the harm of misleading sources by a fallback that learns from nothing."""

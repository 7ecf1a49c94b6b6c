"""Spaces of configs that a search proposes from."""

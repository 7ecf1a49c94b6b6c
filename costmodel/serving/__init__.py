"""Tables of configs for frameworks that serve language models."""

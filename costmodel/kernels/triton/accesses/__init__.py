"""How a kernel accesses memory: what a thread takes at once, and what a warp touches."""

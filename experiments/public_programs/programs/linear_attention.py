"""Gated linear attention of flash-linear-attention, forwards: several kernels with lists of configs."""

import torch
from fla.ops.simple_gla import chunk_simple_gla

q, k, v = (torch.randn(4, 2048, 8, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
gate = torch.nn.functional.logsigmoid(torch.randn(4, 2048, 8, device="cuda"))
out, _ = chunk_simple_gla(q, k, v, gate)
assert out.isfinite().all()

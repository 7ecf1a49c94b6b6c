"""A product of flash-linear-attention: one kernel, with a list of eight configs."""

import torch
from fla.ops.utils.matmul import matmul

a = torch.randn(2048, 4096, device="cuda", dtype=torch.bfloat16)
b = torch.randn(4096, 1536, device="cuda", dtype=torch.bfloat16)
torch.testing.assert_close(matmul(a, b).float(), a.float() @ b.float(), rtol=0.02, atol=1.0)

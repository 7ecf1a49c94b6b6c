"""Liger's RMS norm, forwards and backwards: two kernels without a list of configs."""

import torch
from liger_kernel.ops.rms_norm import LigerRMSNormFunction

x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)
weight = torch.ones(4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)
y = LigerRMSNormFunction.apply(x, weight, 1e-6)
y.backward(torch.randn_like(y))
reference = torch.nn.functional.rms_norm(x.float(), (4096,), weight.float(), 1e-6)
torch.testing.assert_close(y.float(), reference, rtol=0.02, atol=0.02)

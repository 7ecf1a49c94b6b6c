"""Find the kernel to run on 32 SMs of an H100 from recorded measurements: no GPU is needed.

A model learns from the other workloads of the dataset that ships and measures only a shortlist.
"""

import costmodel

result = costmodel.tune("matmul-m16-n1024-k1024", sms=32, trials=8, seed=0)

print(result)
print(result.trials)
result.plot("tune.png")

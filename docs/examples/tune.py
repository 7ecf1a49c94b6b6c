"""Find a fast kernel for 32 SMs of an H100 by replaying recorded measurements. No GPU is needed.

A model learns from the other workloads of the included dataset, so that only a shortlist is measured.
"""

import costmodel

result = costmodel.tune("matmul-m16-n1024-k1024", sms=32, trials=8, search=costmodel.SearchSettings(seed=0))

print(result)
print(result.to_frame()[["trial", "config_id", "latency_s", "predicted_latency_s"]])
result.plot("tune.png")

"""Find three kernels that together serve every SM budget, and the one to run on 40 SMs. No GPU is needed."""

import costmodel

result = costmodel.tune(
    "matmul-m16-n1024-k1024",
    sms=costmodel.Goal(portfolio=3),
    trials=16,
    search=costmodel.SearchSettings(seed=0),
)
print("\n".join(result.answer))

table = result.dispatch_table
table.save("dispatch.json")  # what a server loads when it starts
for entry in table.ranges:
    print(f"from {entry.from_sms} to {entry.to_sms} SMs: {entry.config_id[:8]}")
print("On 40 SMs:", costmodel.load_dispatch_table("dispatch.json").kernel_for(40).config)

"""Train a model on recorded measurements, save it to a file, and rank kernels that it never saw."""

import costmodel

dataset = costmodel.load_dataset("h100-sm-budgets")
held_out = "matmul-m16-n1024-k1024"

model = costmodel.train(dataset, "kernel-ridge", hold_out=[held_out])
print(model)
model.save("h100.costmodel")

# Rank the recorded kernels of the held-out workload on two SM budgets.
candidates = [kernel for kernel in dataset.candidates if kernel.workload.name == held_out]
loaded = costmodel.load_model("h100.costmodel")
for sms in (32, 132):
    ranked = loaded.predict(candidates, sms=sms).sort_values("rank_score", ascending=False)
    print(f"\nOn {sms} SMs, the five that are predicted to be fastest:")
    print(ranked[["candidate_id", "rank_score", "latency_s"]].head(5))

"""Compare two learners by how good their first choices are on workloads that they never saw.

Each workload is held out in turn with all its SM budgets. Only 40 tasks are used, to keep this example short.
"""

import costmodel

report = costmodel.evaluate(
    "h100-sm-budgets",
    ["consensus", "kernel-ridge"],
    folds=4,
    tasks=40,
    shots=[0, 4, 16],
    baseline="consensus",
)

print(report)
print(report.summary()[["score_at_1", "score_at_1_low", "score_at_1_high", "gap_recovered"]].round(3))
print(report.by_shots()[["learner", "shots", "score_at_1"]].round(3))
report.plot("by_measurements.png", by="shots")
report.save("report")

"""Tree learners: boosted trees for latency or ranking, and random forests."""

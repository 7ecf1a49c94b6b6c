"""Training and test sides of an evaluation: whole datasets, sampled tasks, and novelty of tasks."""

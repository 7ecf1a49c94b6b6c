"""Learners that share structure across tasks."""

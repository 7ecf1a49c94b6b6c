"""Learners that remember source tasks and treat a new task as one of them or as a mixture."""

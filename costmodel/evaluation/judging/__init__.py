"""Results of one task, and statistics over many tasks."""

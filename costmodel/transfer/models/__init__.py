"""Models that learn from source tasks and adapt to a new one."""

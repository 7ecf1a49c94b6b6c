"""Code that runs in the process that holds the device: timing, SM partitions, state."""

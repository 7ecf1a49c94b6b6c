"""TVM's MetaSchedule as a source of kernels: design spaces as named discrete decisions."""

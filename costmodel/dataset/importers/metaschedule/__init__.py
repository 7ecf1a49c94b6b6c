"""JSON databases of TVM's MetaSchedule."""

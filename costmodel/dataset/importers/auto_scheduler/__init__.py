"""Logs of TVM's auto_scheduler, as TenSet has them."""

from costmodel.dataset.importers.auto_scheduler._log import AUTO_SCHEDULER

__all__ = ["AUTO_SCHEDULER"]

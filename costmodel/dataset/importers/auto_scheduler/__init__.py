"""Logs of TVM's auto_scheduler, as TenSet has them."""

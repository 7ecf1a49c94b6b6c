"""For TVM's MetaSchedule. Importing this loads TVM."""

from costmodel.integrations.tvm._builder import Builder
from costmodel.integrations.tvm._cost_model import CostModel
from costmodel.integrations.tvm._platform import local_platform, named_platform
from costmodel.integrations.tvm._runner import Runner

__all__ = ["Builder", "CostModel", "Runner", "local_platform", "named_platform"]

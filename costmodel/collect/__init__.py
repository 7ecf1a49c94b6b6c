"""Makes measurements. Importing this loads no TVM and no CUDA."""

from costmodel.collect._base import Runner
from costmodel.collect._campaign import Campaign, CampaignReport, Collector
from costmodel.collect._campaign_config import CampaignConfig, KernelPlan
from costmodel.collect._cpu import CpuRunner
from costmodel.collect._cuda import CudaRunner
from costmodel.collect._replay import ReplayRunner
from costmodel.collect._timing import Timing

__all__ = [
    "Campaign",
    "CampaignConfig",
    "CampaignReport",
    "Collector",
    "CpuRunner",
    "CudaRunner",
    "KernelPlan",
    "ReplayRunner",
    "Runner",
    "Timing",
]

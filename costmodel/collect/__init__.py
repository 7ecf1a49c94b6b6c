"""Makes measurements. Importing this loads no TVM and no CUDA."""

from costmodel.collect._base import Request, Runner
from costmodel.collect._build import Built
from costmodel.collect._campaign import Campaign, CampaignReport
from costmodel.collect._campaign_config import CampaignConfig, KernelPlan, MpsPlan
from costmodel.collect._campaign_folder import CampaignFolder
from costmodel.collect._collector import Collector, Draw, draw_at_random
from costmodel.collect._cpu import CpuRunner
from costmodel.collect._cuda import CudaRunner
from costmodel.collect._device_job import Argument, Timed
from costmodel.collect._module_build import ModuleBuilders, ModuleSource
from costmodel.collect._progress import CampaignStatus, Estimate, campaign_status, estimate_campaign
from costmodel.collect._replay import ReplayRunner
from costmodel.collect._timing import Timing
from costmodel.collect._tvm_runner import default_builders

__all__ = [
    "Argument",
    "Built",
    "Campaign",
    "CampaignConfig",
    "CampaignFolder",
    "CampaignReport",
    "CampaignStatus",
    "Collector",
    "CpuRunner",
    "CudaRunner",
    "Draw",
    "Estimate",
    "KernelPlan",
    "ModuleBuilders",
    "ModuleSource",
    "MpsPlan",
    "ReplayRunner",
    "Request",
    "Runner",
    "Timed",
    "Timing",
    "campaign_status",
    "default_builders",
    "draw_at_random",
    "estimate_campaign",
]

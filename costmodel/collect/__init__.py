"""Makes measurements. Importing this loads no TVM and no CUDA."""

from costmodel.collect.campaign import (
    Campaign,
    CampaignConfig,
    CampaignFolder,
    campaign_status,
    estimate_campaign,
    find_campaign,
)
from costmodel.collect.device import Argument, Timed, Timing
from costmodel.collect.runners import CpuRunner, CudaRunner, ReplayRunner, Request, Runner, default_builders

__all__ = [
    "Argument",
    "Campaign",
    "CampaignConfig",
    "CampaignFolder",
    "CpuRunner",
    "CudaRunner",
    "ReplayRunner",
    "Request",
    "Runner",
    "Timed",
    "Timing",
    "campaign_status",
    "default_builders",
    "estimate_campaign",
    "find_campaign",
]

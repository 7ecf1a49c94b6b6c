"""Makes measurements. Importing this loads no TVM and no CUDA."""

from costmodel.collect.campaign import (
    Campaign,
    CampaignConfig,
    CampaignFolder,
    CampaignReport,
    CampaignStatus,
    Collector,
    Draw,
    Estimate,
    KernelPlan,
    MpsPlan,
    campaign_status,
    draw_at_random,
    estimate_campaign,
)
from costmodel.collect.device import Argument, Timed, Timing
from costmodel.collect.runners import CpuRunner, CudaRunner, ReplayRunner, Request, Runner, default_builders

__all__ = [
    "Argument",
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

"""Make measurements. Importing this package loads neither TVM nor CUDA."""

from costmodel.collector.campaign import (
    Campaign,
    CampaignConfig,
    CampaignFolder,
    campaign_status,
    estimate_campaign,
    find_campaign,
)
from costmodel.collector.device import Argument, Timed, Timing
from costmodel.collector.runners import (
    CpuRunner,
    CudaRunner,
    RecordedRunner,
    ReplayRunner,
    Request,
    Runner,
    WrappedRunner,
    default_builders,
)

__all__ = [
    "Argument",
    "Campaign",
    "CampaignConfig",
    "CampaignFolder",
    "CpuRunner",
    "CudaRunner",
    "RecordedRunner",
    "ReplayRunner",
    "Request",
    "Runner",
    "Timed",
    "Timing",
    "WrappedRunner",
    "campaign_status",
    "default_builders",
    "estimate_campaign",
    "find_campaign",
]

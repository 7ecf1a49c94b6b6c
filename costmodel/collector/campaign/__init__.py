"""Campaigns: what to measure, in which order, and how a stopped one goes on."""

from costmodel.collector.campaign._campaign import Campaign, CampaignReport
from costmodel.collector.campaign._collector import Collector, Draw, draw_at_random
from costmodel.collector.campaign._config import CampaignConfig, KernelPlan, MpsPlan, find_campaign
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.collector.campaign._progress import (
    CampaignStatus,
    Estimate,
    campaign_status,
    estimate_campaign,
)
from costmodel.collector.campaign._schedule import Schedule

__all__ = [
    "Campaign",
    "CampaignConfig",
    "CampaignFolder",
    "CampaignReport",
    "CampaignStatus",
    "Collector",
    "Draw",
    "Estimate",
    "KernelPlan",
    "MpsPlan",
    "Schedule",
    "campaign_status",
    "draw_at_random",
    "estimate_campaign",
    "find_campaign",
]

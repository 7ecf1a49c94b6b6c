"""Former place of names that are in ``costmodel.service`` now."""

from costmodel.service._simulate import simulate
from costmodel.service._stage_times import CampaignWork as Campaign
from costmodel.service._stage_times import StageTimes, load_times
from costmodel.service._stage_times import TuneWork as Tune

__all__ = ["Campaign", "StageTimes", "Tune", "load_times", "simulate"]

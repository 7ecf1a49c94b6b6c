from ._jobs import Campaign as Campaign
from ._jobs import Tune as Tune
from ._simulate import simulate as simulate
from ._times import StageTimes as StageTimes
from ._times import load_times as load_times

from ._base import Tracker as Tracker
from ._items import Artifact as Artifact
from ._items import Metric as Metric
from ._items import Parameter as Parameter
from ._items import Table as Table
from ._items import Tag as Tag
from ._mlflow import MlflowTracker as MlflowTracker
from ._run import tracked_run as tracked_run

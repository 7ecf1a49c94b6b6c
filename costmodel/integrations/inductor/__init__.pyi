from ._choices import report as report
from ._compile import compile as compile
from ._compile import install as install
from ._models import RanksProducts as RanksProducts

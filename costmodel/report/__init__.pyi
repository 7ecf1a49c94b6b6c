from ._progress import Progress as Progress
from ._table import TextTable as TextTable

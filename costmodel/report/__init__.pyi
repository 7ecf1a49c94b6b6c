from ._page import TextTable as TextTable
from ._progress import Progress as Progress

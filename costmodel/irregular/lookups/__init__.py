"""Lookups in a table of rows: how popular rows are, how long bags are, and what comes of both.

A bag is what one sample looks up in a table; its rows are summed, each with a weight. That is an embedding
bag, and a layer whose input is sparse: the table is the transposed matrix of weights. Dims of a workload:

====  ==============================================================================
r     rows of the table
d     width of a row
b     bags
l     mean number of lookups of a bag; all bags together have b * l
v     how lengths of bags spread: 1 fixed, 2 uniform, 3 exponential, 4 power law
h     per mille of the lookups, plus 1, that go to the hottest row
w     those to the hottest 0.01 % of the rows
x     those to the hottest 0.1 %
y     those to the hottest 1 %
z     those to the hottest 10 %
====  ==============================================================================
"""

from costmodel.irregular.lookups._bag_sums import bag_sums, table_gradient
from costmodel.irregular.lookups._bags import Bags
from costmodel.irregular.lookups._histogram import Histogram
from costmodel.irregular.lookups._lookups import Lookups
from costmodel.irregular.lookups._table import missed_rows, random_table, row_bytes

__all__ = [
    "Bags",
    "Histogram",
    "Lookups",
    "bag_sums",
    "missed_rows",
    "random_table",
    "row_bytes",
    "table_gradient",
]

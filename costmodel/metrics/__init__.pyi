from ._coverage import coverage_score as coverage_score
from ._score import relative_error as relative_error
from ._score import score_at_k as score_at_k

from ._cross_validate import cross_validate as cross_validate
from ._cross_validate import evaluate_across as evaluate_across
from ._judge import FewShot as FewShot
from ._judge import judge as judge
from ._report import EvaluationReport as EvaluationReport

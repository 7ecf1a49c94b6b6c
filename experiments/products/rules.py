"""How others choose: the rules of the benchmark, as they are named in the tables."""

from costmodel.benchmark.entries._product_rules import (
    Rule,
    cublaslt_told,
    cublaslt_untold,
    deepgemm,
    helion,
    origami,
    torch_call,
    wave_quantisation,
)

RULES: dict[str, Rule] = {
    "PyTorch's call": torch_call,
    "cuBLASLt's heuristics": cublaslt_untold,
    "cuBLASLt told its SMs": cublaslt_told,
    "DeepGEMM's rule": deepgemm,
    "wave quantisation": wave_quantisation,
    "Origami (tritonBLAS)": origami,
    "Helion's formula": helion,
}

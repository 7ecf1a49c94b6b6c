"""What a shell offers for the values of options; each imports what it needs when the shell asks."""


def complete_learner(incomplete: str) -> list[str]:
    """Names of learners."""
    from costmodel.learners._registry import learner_names

    return [name for name in learner_names() if name.startswith(incomplete)]


def complete_split(incomplete: str) -> list[str]:
    """Strategies by which a dataset is split."""
    from costmodel.dataset.splits._make import STRATEGIES

    return [name for name in STRATEGIES if name.startswith(incomplete)]


def complete_workload(incomplete: str) -> list[str]:
    """Names of the catalogue's workloads."""
    from costmodel.workloads._catalogue import catalogue

    return [entry.workload.name for entry in catalogue() if entry.workload.name.startswith(incomplete)]

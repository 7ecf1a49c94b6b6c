"""Tunes a matrix product by ``triton.autotune`` and by ours, on a whole GPU and a part. See README.md here.

Which config each takes, and how long its first answer takes once all configs are compiled. Checks that the
SMs are found, that answers differ by key, and that another process is answered from the store.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options


def main() -> None:
    options = parse()
    sys.path.append(str(Path(__file__).parent))
    from on_gpu import answer_from, compare

    if options.answer_from:
        answer_from(options.answer_from)
    else:
        compare(options.json, options.part_sms)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="what was found")
    parser.add_argument("--part-sms", type=int, help="SMs of the part of the GPU")
    parser.add_argument("--answer-from", type=Path, help="only take the answer of this store, or fail")
    return parse_options(parser, __file__, argv)


if __name__ == "__main__":
    main()

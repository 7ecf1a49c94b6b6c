#!/usr/bin/env bash
# On two cores, from the data of this repository; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/irregular
exec "${PYTHON:-python}" $here/run.py --json $here/result.json --plots $here "$@"

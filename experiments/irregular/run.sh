#!/usr/bin/env bash
# On two cores, from the data of this repository: three quarters of an hour. Options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/irregular
h100="NVIDIA H100 80GB HBM3" h200="NVIDIA H200"
"${PYTHON:-python}" $here/run.py --json $here/result.json --plots $here "$@"
"${PYTHON:-python}" $here/run.py --device "$h200" --json $here/result_h200.json "$@"
"${PYTHON:-python}" $here/run.py --device "$h100" "$h200" --parts "another device" --json $here/result_devices.json "$@"

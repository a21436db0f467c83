#!/usr/bin/env bash
# deploy.sh of the Chicago taxi samples (2.7): the last export is the model.
set -euo pipefail
MODEL_BINARIES=$(gsutil ls "${JOB_DIR}/export/estimate" | tail -1)
gsutil ls -r "${MODEL_BINARIES}"
echo "model: ${MODEL_BINARIES}"

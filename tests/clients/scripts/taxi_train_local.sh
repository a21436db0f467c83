#!/usr/bin/env bash
# train-local.sh of the Chicago taxi samples (2.7): the same trainer on this machine, then what it exported.
set -euo pipefail
rm -rf "${MODEL_DIR}"
gcloud ai-platform local train \
    --module-name=trainer.task \
    --package-path=./trainer \
    -- \
    --train-files="${TRAIN_FILES}" \
    --eval-files="${EVAL_FILES}" \
    --job-dir="${MODEL_DIR}" \
    --train-size=800 \
    --num-epochs=1 \
    --batch-size=128 \
    --learning-rate=0.001 \
    --hidden-units="128,0,0" \
    --layer-sizes-scale-factor=0.5 \
    --num-layers=3
ls "${MODEL_DIR}/export/estimate"

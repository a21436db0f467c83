#!/usr/bin/env bash
# train-cloud.sh of the Chicago taxi samples (2.7), flag for flag; its distributed and gpu sisters differ in --config and
# in what follows --, and so does ST446's train-cloud-ps.sh (2.8). CONFIG and the sizes are theirs.
set -euo pipefail
DATE=$(date '+%Y%m%d_%H%M%S')
JOB_NAME=train_tensorflow_taxi_${DATE}_${RANDOM}
gcloud ai-platform jobs submit training "${JOB_NAME}" \
    --stream-logs \
    --job-dir="${JOB_DIR}" \
    --runtime-version="${RUNTIME_VERSION}" \
    --python-version="${PYTHON_VERSION}" \
    --region="${REGION}" \
    --module-name=trainer.task \
    --package-path=./trainer \
    --config="${CONFIG}" \
    -- \
    --train-files="${TRAIN_FILES}" \
    --eval-files="${EVAL_FILES}" \
    --train-size="${TRAIN_SIZE}" \
    --num-epochs="${NUM_EPOCHS}" \
    --batch-size=128 \
    --learning-rate=0.001 \
    --hidden-units="128,0,0" \
    --layer-sizes-scale-factor=0.5 \
    --num-layers=3
gcloud ai-platform jobs describe "${JOB_NAME}" --format='value(state)'

#!/usr/bin/env bash
# The submit cells of the first taxifare notebooks (1.6 A): a package, then a container of one's own, through gcloud beta.
set -euo pipefail
gcloud ai-platform jobs submit training "taxifare_${RANDOM}_a" \
    --module-name=trainer.task \
    --package-path=taxifare/trainer \
    --staging-bucket="gs://${BUCKET}" \
    --python-version=3.7 \
    --runtime-version=2.1 \
    --region="${REGION}" \
    -- \
    --eval_data_path "gs://${BUCKET}/taxi-valid*" \
    --nnsize "32 8"
gcloud beta ai-platform jobs submit training "taxifare_${RANDOM}_b" \
    --staging-bucket="gs://${BUCKET}" \
    --region="${REGION}" \
    --master-image-uri="${IMAGE}" \
    --master-machine-type=n1-standard-4 \
    --scale-tier=CUSTOM \
    -- \
    --output_dir "gs://${BUCKET}/out"
gcloud ai-platform jobs list --limit=2 --sort-by=~createTime

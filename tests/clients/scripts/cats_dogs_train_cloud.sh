#!/usr/bin/env bash
# train_cloud.sh of cats vs dogs (3): an image is built and pushed, and is the job.
set -euo pipefail
IMAGE_REPO_NAME=tensorflow_gpu_cats_dogs
IMAGE_TAG=catsdogs_tf_gpu
IMAGE_URI=gcr.io/${PROJECT_ID}/${IMAGE_REPO_NAME}:${IMAGE_TAG}
docker build -f Dockerfile -t "${IMAGE_URI}" ./
docker push "${IMAGE_URI}"
JOB_NAME=cats_dogs_$(date +%Y%m%d_%H%M%S)_${RANDOM}
gcloud ai-platform jobs submit training "${JOB_NAME}" \
    --region asia-east1 \
    --master-image-uri "${IMAGE_URI}" \
    --config ./config.yaml \
    -- \
    trainer/task.py \
    --bucket "${BUCKET_NAME}" \
    --train-pattern "gs://${BUCKET_NAME}/train_tfr/*.tfrec" \
    --valid-pattern "gs://${BUCKET_NAME}/validation_tfr/*.tfrec"
gcloud ai-platform jobs stream-logs "${JOB_NAME}"
gcloud ai-platform jobs describe "${JOB_NAME}" --format='value(state)'

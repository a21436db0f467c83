#!/usr/bin/env bash
# upload_tfr.sh of cats vs dogs (3): the TFRecords of both parts, in parallel.
set -euo pipefail
gsutil mb -p "${PROJECT_ID}" -c standard -l asia-east1 -b on "gs://${BUCKET_NAME}"
gsutil -m cp -r train_tfr "gs://${BUCKET_NAME}"
gsutil -m cp -r validation_tfr "gs://${BUCKET_NAME}"
gsutil ls "gs://${BUCKET_NAME}/train_tfr/*.tfrec"

#!/usr/bin/env bash
# The same steps in the words of newer notebooks: gcloud storage.
set -euo pipefail
gcloud storage buckets create "gs://${BUCKET}" --location="${REGION}" --uniform-bucket-level-access
gcloud storage cp -r data "gs://${BUCKET}/"
gcloud storage cp "gs://${BUCKET}/data/*.csv" out/
gcloud storage ls --recursive "gs://${BUCKET}/data/"
gcloud storage rm -r "gs://${BUCKET}"

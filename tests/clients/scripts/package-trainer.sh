#!/usr/bin/env bash
# package-trainer.sh of the sentiment trainer (5): tar of package/, to the bucket under its app's name.
set -euo pipefail
rm -f trainer.tar trainer.tar.gz
tar cf trainer.tar package
gzip trainer.tar
gsutil cp trainer.tar.gz "${GCS_BUCKET_URI}/ragdetective-app-trainer.tar.gz"
gsutil stat "${GCS_BUCKET_URI}/ragdetective-app-trainer.tar.gz"

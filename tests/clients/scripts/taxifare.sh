#!/usr/bin/env bash
# The bucket commands of the taxifare notebooks (facts/reference-trainers.md 1.6), flag for flag: make the bucket,
# put the package there, look at what the job left. BUCKET and REGION are the notebooks'.
set -euo pipefail
exists=$(gsutil ls -d | grep -w "gs://${BUCKET}/" || true)
if [ -n "$exists" ]; then
    echo "Bucket exists, let's not recreate it."
else
    echo "Creating a new GCS bucket."
    gsutil mb -l "${REGION}" "gs://${BUCKET}"
    echo "Here are your current buckets:"
    gsutil ls
fi
gsutil cp taxifare/dist/taxifare_trainer-0.1.tar.gz "gs://${BUCKET}/taxifare/"
gsutil ls "gs://${BUCKET}/taxifare/"
gsutil ls "gs://${BUCKET}/taxifare/trained_model/savedmodel"

#!/bin/sh
# Tips of Chicago's taxis with a TensorFlow estimator, as AI Platform job with a master, four workers and a parameter
# server: makes the data, puts it into a bucket, submits, follows the log, shows what came out.
# A server must be running (trainyard serve). The first run makes the TensorFlow runtime, which takes minutes.
set -eu
cd "$(dirname "$0")"
trainyard=$(command -v trainyard || echo "$PWD/../../build/trainyard")
work=${1:-$PWD/../../build/chicago-taxi-tf}
bucket=chicago-taxi-example
mkdir -p "$work"

[ -e "$work/taxi_trips_eval.csv" ] || python3 make_data.py "$work"
"$trainyard" storage buckets describe "gs://$bucket" >/dev/null 2>&1 || "$trainyard" storage buckets create "gs://$bucket"
"$trainyard" storage cp "$work/taxi_trips_train.csv" "$work/taxi_trips_eval.csv" "gs://$bucket/data/"
"$trainyard" ai-platform jobs submit training "chicago_taxi_$(date +%Y%m%d_%H%M%S)" --stream-logs \
    --job-dir="gs://$bucket/model" --runtime-version=2.15 --python-version=3.7 --region=us-central1 \
    --module-name=trainer.task --package-path=./trainer --config=./config-ps.yaml -- \
    --train-files="gs://$bucket/data/taxi_trips_train.csv" --eval-files="gs://$bucket/data/taxi_trips_eval.csv" \
    --train-size=10000 --num-epochs=10 --batch-size=128 --learning-rate=0.001 \
    --hidden-units=128,0,0 --layer-sizes-scale-factor=0.5 --num-layers=3
"$trainyard" storage ls "gs://$bucket/model/export/estimate/"

#!/bin/sh
# Taxi fares with TensorFlow, as a job: makes the data and the package, submits, follows the log, shows what came out.
# A server must be running (trainyard serve). The first run makes the TensorFlow runtime, which takes minutes.
set -eu
cd "$(dirname "$0")"
trainyard=$(command -v trainyard || echo "$PWD/../../build/trainyard")
work=${1:-$PWD/../../build/taxifare-tf}
mkdir -p "$work"
work=$(cd "$work" && pwd)

[ -e "$work/data/taxi-valid-000000000000.csv" ] || python3 make_data.py "$work/data"
name=$("$trainyard" ai custom-jobs create --display-name=taxifare-tf --format='value(name)' \
    --worker-pool-spec=machine-type=n1-standard-4,executor-image-uri=us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-15:latest,local-package-path=.,python-module=trainer.task \
    --args="--train_data_path=$work/data/taxi-train*,--eval_data_path=$work/data/taxi-valid*,--output_dir=$work/out,--batch_size=50,--num_examples_to_train_on=5000,--num_evals=5,--nnsize=32 8")
"$trainyard" ai custom-jobs stream-logs "$name"
find "$work/out" -name saved_model.pb

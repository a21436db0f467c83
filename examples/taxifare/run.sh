#!/bin/sh
# Taxi fares without Python: makes some rides, trains, evaluates, exports and predicts. Needs no server.
# The flags are the reference trainer's own (examples/taxifare-tf).
set -eu
cd "$(dirname "$0")"
trainyard=$(command -v trainyard || echo "$PWD/../../build/trainyard")
work=${1:-$PWD/../../build/taxifare}
mkdir -p "$work"
work=$(cd "$work" && pwd)

[ -e "$work/data/taxi-valid-000000000000.csv" ] || python3 ../taxifare-tf/make_data.py "$work/data"
"$trainyard" train taxifare --train_data_path="$work/data/taxi-train*" --eval_data_path="$work/data/taxi-valid*" \
    --output_dir="$work/out" --batch_size=32 --num_examples_to_train_on=200000 --num_evals=10 --nnsize "32 8" --plot
model=$(ls -d "$work"/out/export/savedmodel/* | tail -n 1)
"$trainyard" model show "$model"
head -n 3 "$work/data/taxi-valid-000000000000.csv" | "$trainyard" predict --model "$model" -

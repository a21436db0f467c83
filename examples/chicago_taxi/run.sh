#!/bin/sh
# Chicago taxi tips without Python: makes some rides, trains wide and deep, evaluates, exports and predicts.
# Needs no server. The flags are the reference trainer's own.
set -eu
cd "$(dirname "$0")"
trainyard=$(command -v trainyard || echo "$PWD/../../build/trainyard")
work=${1:-$PWD/../../build/chicago_taxi}
mkdir -p "$work"
work=$(cd "$work" && pwd)

[ -e "$work/data/eval.csv" ] || python3 make_data.py "$work/data"
"$trainyard" train chicago_taxi --train-files "$work/data/train.csv" --eval-files "$work/data/eval.csv" --job-dir "$work/out" \
    --learning-rate 0.001 --batch-size 128 --hidden-units "128,0,0" --layer-sizes-scale-factor 0.5 --num-layers 3 \
    --num-epochs 10 --train-size 8000
model=$(ls -d "$work"/out/export/savedmodel/* | tail -n 1)
"$trainyard" model show "$model"
head -n 4 "$work/data/eval.csv" | "$trainyard" predict --model "$model" -

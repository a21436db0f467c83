#!/bin/sh
# Flowers without Python: makes small pictures, trains a convolutional network on them, evaluates, exports and predicts.
# Needs no server. With the photographs of the reference trainer: --train_data_path=flower_photos, and nothing else.
set -eu
cd "$(dirname "$0")"
trainyard=$(command -v trainyard || echo "$PWD/../../build/trainyard")
work=${1:-$PWD/../../build/flowers}
mkdir -p "$work"
work=$(cd "$work" && pwd)

[ -e "$work/data/tulips/047.png" ] || python3 make_images.py "$work/data"
"$trainyard" train flowers --train_data_path="$work/data" --output_dir="$work/out" --img_height=64 --img_width=64 --epochs=6 --plot
model=$(ls -d "$work"/out/export/savedmodel/* | tail -n 1)
"$trainyard" model show "$model"
"$trainyard" predict --model "$model" "$work/data/daisy/000.png" "$work/data/roses/000.png" "$work/data/tulips/000.png"

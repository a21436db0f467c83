"""python3 -m trainer.task: flags, then trainer.model."""
import argparse
import json

from trainer import model


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=32, help="examples a step")
    parser.add_argument("--train_data_path", required=True, help="files to train on, a pattern")
    parser.add_argument("--eval_data_path", required=True, help="files to evaluate on, a pattern")
    parser.add_argument("--output_dir", required=True, help="emptied first; gets checkpoints, curves and the model")
    parser.add_argument("--nnsize", nargs="+", default=["32 8"], help="units of each hidden layer")
    parser.add_argument("--nbuckets", type=int, default=10, help="buckets for longitude and latitude")
    parser.add_argument("--lr", type=float, default=0.001, help="learning rate of Adam")
    parser.add_argument("--num_evals", type=int, default=5, help="evaluations, at equal distances")
    parser.add_argument("--num_examples_to_train_on", type=int, default=100, help="in all")
    parser.add_argument("--job-dir", default="", help="taken and ignored")
    args = vars(parser.parse_args())
    args["nnsize"] = [int(size) for size in " ".join(args["nnsize"]).split()]
    return args


if __name__ == "__main__":
    hparams = parse_args()
    history = model.train_and_evaluate(hparams)
    print("final", json.dumps({name: round(float(values[-1]), 4) for name, values in history.history.items()}))

"""task.py -- trains and evaluates the estimator, alone or as one replica of a job (TF_CONFIG).

It runs on TensorFlow 2 up to 2.15, which has estimators, and on the 1.x runtimes of AI Platform: whatever it needs of
the old API it takes from tf.compat.v1."""
import argparse
import json
import os

import tensorflow as tf

from trainer import data, model


def arguments(words=None):
    p = argparse.ArgumentParser()
    p.add_argument("--train-files", nargs="+", required=True, help="files, patterns or gs:// of them")
    p.add_argument("--eval-files", nargs="+", required=True)
    p.add_argument("--job-dir", required=True, help="checkpoints, curves and the exported model")
    p.add_argument("--reuse-job-dir", action="store_true", help="go on from what is there; else it is removed first")
    p.add_argument("--train-steps", type=int, default=0, help="0: from --train-size and --num-epochs")
    p.add_argument("--train-size", type=int)
    p.add_argument("--num-epochs", type=int, default=100)
    p.add_argument("--eval-steps", type=int)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--eval-frequency-secs", type=int, default=15)
    p.add_argument("--embed-categorical-columns", action="store_true", default=True)
    p.add_argument("--use-indicator-columns", action="store_true")
    p.add_argument("--use-wide-columns", action="store_true")
    p.add_argument("--learning-rate", type=float, default=0.1)
    p.add_argument("--learning-rate-decay-factor", type=float, default=1.0)
    p.add_argument("--hidden-units", default="30,30,30")
    p.add_argument("--layer-sizes-scale-factor", type=float, default=0.7)
    p.add_argument("--num-layers", type=int, default=4)
    p.add_argument("--dropout-prob", type=float)
    p.add_argument("--serving-export-format", choices=["JSON", "CSV", "EXAMPLE"], default="JSON")
    p.add_argument("--eval-export-format", choices=["CSV", "EXAMPLE"], default="CSV")
    return p.parse_args(words)


def steps(args):
    if args.train_steps > 0:
        return args.train_steps
    if args.train_size is None:
        raise SystemExit("give --train-steps, or --train-size and --num-epochs")
    return int(args.train_size / args.batch_size * args.num_epochs)


def export(args, train_steps, serving):
    """The chief's last work where nobody evaluates: a `master` does it while it trains, an evaluator beside it."""
    os.environ.pop("TF_CONFIG", None)  # alone: its own session, its own devices
    v1 = tf.compat.v1
    alone = model.estimator(tf, args, train_steps, v1.estimator.RunConfig(model_dir=args.job_dir))
    found = alone.evaluate(data.input_fn(tf, args.eval_files, args.batch_size, False), steps=args.eval_steps)
    print("evaluated", json.dumps({k: float(v) for k, v in found.items()}), flush=True)
    alone.export_saved_model(os.path.join(args.job_dir, "export", "estimate"), serving)


def main():
    args = arguments()
    v1 = tf.compat.v1
    v1.logging.set_verbosity(v1.logging.INFO)
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    role, index = task.get("type"), task.get("index", 0)
    print(f"replica {role or 'alone'} {index} of TensorFlow {tf.version.VERSION}", flush=True)
    if not args.reuse_job_dir and role in (None, "chief", "master") and tf.io.gfile.exists(args.job_dir):
        tf.io.gfile.rmtree(args.job_dir)
    train_steps = steps(args)
    config = v1.estimator.RunConfig(model_dir=args.job_dir, tf_random_seed=19831006, log_step_count_steps=100,
                                    save_checkpoints_secs=args.eval_frequency_secs, keep_checkpoint_max=3)
    serving = data.serving_fn(tf, args.serving_export_format)
    v1.estimator.train_and_evaluate(
        model.estimator(tf, args, train_steps, config),
        v1.estimator.TrainSpec(data.input_fn(tf, args.train_files, args.batch_size, True), max_steps=train_steps),
        v1.estimator.EvalSpec(data.input_fn(tf, args.eval_files, args.batch_size, False), steps=args.eval_steps,
                              exporters=[v1.estimator.FinalExporter("estimate", serving)],
                              throttle_secs=args.eval_frequency_secs, start_delay_secs=0))
    if role == "chief" and index == 0:
        export(args, train_steps, serving)
    print(f"replica {role or 'alone'} {index} is done", flush=True)


if __name__ == "__main__":
    main()

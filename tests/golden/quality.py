"""quality.py MODEL: train MODEL 20 times with TensorFlow on the real data, as its reference trainer does; in the TensorFlow venv.

Leaves what each metric of the last evaluation was, run by run (seeds 1 to 20), in quality.json beside this file; tests/clients/test_quality.py
trains ours with the same flags (SETTINGS) and looks whether it ends within that range. Numbers only: no data goes into the file.

usage: build/venv-tf/bin/python tests/golden/quality.py taxifare|chicago_taxi|flowers [DATA]"""
import json
import os
import pathlib
import sys
import tempfile

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
RUNS = 20
TAXIFARE = {"batch_size": 32, "num_examples_to_train_on": 32_000, "num_evals": 5, "nbuckets": 10, "lr": 0.001, "nnsize": "32 8"}
CHICAGO = {"batch_size": 128, "learning_rate": 0.001, "hidden_units": "128,0,0", "layer_sizes_scale_factor": 0.5, "num_layers": 3,
           "train_size": 4552, "num_epochs": 160}  # moving means of momentum 0.999 need thousands of steps
FLOWERS = {"batch_size": 32, "epochs": 12, "img_height": 64, "img_width": 64}  # 180 x 180 would take hours
SETTINGS = {"taxifare": TAXIFARE, "chicago_taxi": CHICAGO, "flowers": FLOWERS}
FILES = {"taxifare": ("taxifare/limjy03-taxi-train.csv", "taxifare/limjy03-taxi-valid.csv"),
         "chicago_taxi": ("chicago_taxi/derived_taxi_trips_train.csv", "chicago_taxi/derived_taxi_trips_eval.csv"),
         "flowers": ("flowers/flower_photos",)}


def taxifare(tf, seed, train, valid):
    sys.path.insert(0, str(TOP / "examples" / "taxifare-tf"))
    from trainer import model as trainer
    tf.keras.utils.set_random_seed(seed)
    s = TAXIFARE
    model = trainer.build_model(s["nbuckets"], [int(n) for n in s["nnsize"].split()], s["lr"])
    steps = s["num_examples_to_train_on"] // (s["batch_size"] * s["num_evals"])
    history = model.fit(trainer.load_dataset(train, s["batch_size"], repeat=True), epochs=s["num_evals"], steps_per_epoch=steps, verbose=0,
                        validation_data=trainer.load_dataset(valid, s["batch_size"], repeat=False)).history
    return {"loss": history["loss"][-1], "val_loss": history["val_loss"][-1], "val_rmse": history["val_rmse"][-1]}


def chicago_estimator(tf, folder, seed):
    """The Estimator itself, with the reference's columns and optimizers -> (estimator, input of a file). The reference shuffles 257 rows
    at a time, which leaves its runs wherever the file's order does; here it shuffles make_csv_dataset's own 10,000, which is all, as ours."""
    fc, s = tf.feature_column, CHICAGO
    kinds = {"tip": 0, "trip_miles": 0.0, "trip_seconds": 0, "fare": 0, "payment_type": "", "company": ""}
    miles, seconds = fc.numeric_column("trip_miles"), fc.numeric_column("trip_seconds")
    payment = fc.categorical_column_with_vocabulary_list(
        "payment_type", ["Cash", "Credit Card", "Pcard", "Unknown", "No Charge", "Prcard", "Dispute", "Mobile"])
    company = fc.categorical_column_with_hash_bucket("company", 100)
    wide = [fc.bucketized_column(miles, list(range(5, 55, 5))), fc.bucketized_column(seconds, [900, 1800, 2700, 3600]),
            fc.crossed_column(["miles_int", "trip_seconds"], 10_000)]
    deep = [fc.embedding_column(company, 10), fc.embedding_column(payment, 3), fc.numeric_column("fare"), miles, seconds]
    model = tf.estimator.DNNLinearCombinedClassifier(
        folder, wide, tf.keras.optimizers.legacy.Ftrl(s["learning_rate"]), deep,
        tf.keras.optimizers.legacy.Adam(s["learning_rate"], epsilon=1e-8), [128, 64, 32], batch_norm=True,
        config=tf.estimator.RunConfig(tf_random_seed=seed, save_checkpoints_secs=1e9))

    def whole(x, y):  # TensorFlow 2.15 refuses to cross a float column, which it once cut to a whole number
        return {**x, "miles_int": tf.cast(x["trip_miles"], tf.int64)}, y

    def files(path, training):
        names = pathlib.Path(path).read_text().split("\n", 1)[0].split(",")
        return lambda: tf.data.experimental.make_csv_dataset(
            path, s["batch_size"], names, [kinds[n] for n in names if n in kinds], "tip", select_columns=[n for n in names if n in kinds],
            shuffle=training, sloppy=training, num_epochs=None if training else 1).map(whole)
    return model, files


def chicago_taxi(tf, seed, train, valid):
    with tempfile.TemporaryDirectory() as folder:
        model, files = chicago_estimator(tf, folder, seed)
        model.train(files(train, True), steps=CHICAGO["train_size"] * CHICAGO["num_epochs"] // CHICAGO["batch_size"])
        result = model.evaluate(files(valid, False))
    return {"val_loss": result["average_loss"], **{f"val_{n}": result[n] for n in ("accuracy", "auc", "auc_precision_recall")}}


def flowers(tf, seed, photos):
    """The reference's own split, cache and shuffle; only the images are smaller."""
    tf.keras.utils.set_random_seed(seed)
    layers, s = tf.keras.layers, FLOWERS
    size = (s["img_height"], s["img_width"])
    train, valid = (tf.keras.utils.image_dataset_from_directory(photos, validation_split=0.2, subset=subset, seed=123, image_size=size,
                                                                batch_size=s["batch_size"]) for subset in ("training", "validation"))
    model = tf.keras.Sequential([
        layers.Rescaling(1 / 255, input_shape=(*size, 3)),
        layers.Conv2D(16, 3, padding="same", activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(32, 3, padding="same", activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"), layers.MaxPooling2D(),
        layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(5, activation="softmax")])
    model.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(), metrics=["accuracy"])
    history = model.fit(train.cache().shuffle(1000).prefetch(1), validation_data=valid.cache().prefetch(1), epochs=s["epochs"], verbose=0).history
    return {n: history[n][-1] for n in ("loss", "accuracy", "val_loss", "val_accuracy")}


def save(results):
    rows = [f' "{n}": {{\n' + ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in results[n].items()) + "}" for n in sorted(results)]
    (HERE / "quality.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


def main(name, data=str(TOP.parent / "shared" / "data")):
    """Go on after the runs that the file has; to begin anew, remove them from it."""
    import tensorflow as tf
    tf.get_logger().setLevel("ERROR")
    path = HERE / "quality.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    mine = results.setdefault(name, {})
    for seed in range(1 + len(next(iter(mine.values()), [])), RUNS + 1):
        run = globals()[name](tf, seed, *(f"{data}/{f}" for f in FILES[name]))
        for metric, value in run.items():
            mine.setdefault(metric, []).append(round(float(value), 6))
        print(seed, run, flush=True)
        save(results)
        tf.keras.backend.clear_session()


if __name__ == "__main__":
    main(*sys.argv[1:])

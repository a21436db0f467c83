"""The taxi fare model: from the CSV files to a saved model. TensorFlow 2.15 (Keras 2)."""
import datetime
import os

import tensorflow as tf
from tensorflow import feature_column as fc

CSV_COLUMNS = ["fare_amount", "pickup_datetime", "pickup_longitude", "pickup_latitude", "dropoff_longitude",
               "dropoff_latitude", "passenger_count", "key"]
LABEL_COLUMN = "fare_amount"
UNWANTED_COLUMNS = ["key"]
DEFAULTS = [[0.0], ["na"], [0.0], [0.0], [0.0], [0.0], [0.0], ["na"]]

NUMERIC_INPUTS = ["pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude", "passenger_count"]
STRING_INPUTS = ["pickup_datetime"]
LOWEST_LONGITUDE, LOWEST_LATITUDE, SPAN_DEGREES = -78.0, 37.0, 8.0
EMBEDDING_SIZE = 100


def load_dataset(pattern, batch_size, repeat):
    """Batches of (features by name, fare) from all files that match."""
    dataset = tf.data.experimental.make_csv_dataset(
        pattern, batch_size, CSV_COLUMNS, DEFAULTS, header=False, num_epochs=None if repeat else 1,
        shuffle_buffer_size=10_000)

    def split(row):
        for name in UNWANTED_COLUMNS:
            row.pop(name)
        return row, row.pop(LABEL_COLUMN)

    return dataset.map(split).prefetch(1)


def hour_of_day(timestamp):
    """2011-01-28 20:42:59 UTC -> 20"""
    return tf.strings.to_number(tf.strings.substr(timestamp, 11, 2), tf.int32)


def transform(inputs, nbuckets):
    """Raw inputs to (scaled and derived inputs, feature columns)."""
    ready = {}
    for end in ("pickup", "dropoff"):
        for axis, lowest in (("longitude", LOWEST_LONGITUDE), ("latitude", LOWEST_LATITUDE)):
            name = f"{end}_{axis}"
            ready[name] = tf.keras.layers.Lambda(
                lambda x, lowest=lowest: (x - lowest) / SPAN_DEGREES, name=f"scale_{name}")(inputs[name])
    ready["passenger_count"] = inputs["passenger_count"]
    ready["euclidean"] = tf.keras.layers.Lambda(
        lambda p: tf.sqrt(tf.square(p[2] - p[0]) + tf.square(p[3] - p[1])), name="euclidean")(
            [inputs[n] for n in NUMERIC_INPUTS[:4]])
    ready["hourofday"] = tf.keras.layers.Lambda(hour_of_day, name="hourofday")(inputs["pickup_datetime"])

    edges = [i / (nbuckets - 1) for i in range(nbuckets)]
    bucket = {n: fc.bucketized_column(fc.numeric_column(n), edges) for n in NUMERIC_INPUTS[:4]}
    pickup = fc.crossed_column([bucket["pickup_latitude"], bucket["pickup_longitude"]], nbuckets**2)
    dropoff = fc.crossed_column([bucket["dropoff_latitude"], bucket["dropoff_longitude"]], nbuckets**2)
    pair = fc.crossed_column([pickup, dropoff], nbuckets**4)
    columns = [fc.numeric_column(n) for n in NUMERIC_INPUTS + ["euclidean"]]
    columns.append(fc.indicator_column(fc.categorical_column_with_identity("hourofday", 24)))
    columns.append(fc.embedding_column(pair, EMBEDDING_SIZE))
    return ready, columns


def rmse(y_true, y_pred):
    return tf.sqrt(tf.reduce_mean(tf.square(y_pred - y_true)))


def build_model(nbuckets, nnsize, lr):
    inputs = {n: tf.keras.layers.Input(name=n, shape=(), dtype=tf.float32) for n in NUMERIC_INPUTS}
    inputs.update({n: tf.keras.layers.Input(name=n, shape=(), dtype=tf.string) for n in STRING_INPUTS})
    ready, columns = transform(inputs, nbuckets)
    x = tf.keras.layers.DenseFeatures(columns)(ready)
    for layer, size in enumerate(nnsize):
        x = tf.keras.layers.Dense(size, activation="relu", name=f"h{layer}")(x)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, name="fare")(x))
    model.compile(optimizer=tf.keras.optimizers.Adam(lr), loss="mse", metrics=[rmse, "mse"])
    return model


def train_and_evaluate(hparams):
    """Train as the flags say; leaves checkpoints, TensorBoard files and a SavedModel in output_dir."""
    batch_size, num_evals = hparams["batch_size"], hparams["num_evals"]
    output_dir = hparams["output_dir"]
    if tf.io.gfile.exists(output_dir):
        tf.io.gfile.rmtree(output_dir)

    model = build_model(hparams["nbuckets"], hparams["nnsize"], hparams["lr"])
    print(model.count_params(), "parameters")
    history = model.fit(
        load_dataset(hparams["train_data_path"], batch_size, repeat=True),
        validation_data=load_dataset(hparams["eval_data_path"], batch_size, repeat=False),
        epochs=num_evals,
        steps_per_epoch=max(1, hparams["num_examples_to_train_on"] // (batch_size * num_evals)),
        verbose=2,  # a line an epoch
        callbacks=[
            tf.keras.callbacks.ModelCheckpoint(os.path.join(output_dir, "checkpoints"), save_weights_only=True),
            tf.keras.callbacks.TensorBoard(os.path.join(output_dir, "tensorboard")),
        ])

    stamp = datetime.datetime.now().strftime("%Y%m%d%H%M%S")
    export = os.path.join(output_dir, "export", "savedmodel", stamp)
    tf.saved_model.save(model, export)
    print("The model is in", export)
    return history

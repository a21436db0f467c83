"""data.py -- the columns of the trips, and how training and evaluation read them."""

COLUMNS = ["tip", "trip_miles", "trip_seconds", "fare", "trip_start_month", "trip_start_hour", "trip_start_day",
           "pickup_community_area", "dropoff_community_area", "pickup_census_tract", "dropoff_census_tract",
           "pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude", "payment_type", "company"]
DEFAULTS = [[0], [0.0], [0], [0], [0], [0], [0], [""], [""], [""], [""], [0.0], [0.0], [0.0], [0.0], [""], [""]]
LABEL = "tip"  # 1: a fifth of the fare or more
PAYMENTS = ["Cash", "Credit Card", "Pcard", "Unknown", "No Charge", "Prcard", "Dispute", "Mobile"]


def input_fn(tf, patterns, batch_size, training):
    """A function for an estimator: batches of (features, label) of the files that match."""
    def read():
        return tf.data.experimental.make_csv_dataset(
            patterns, batch_size, column_names=COLUMNS, column_defaults=DEFAULTS, label_name=LABEL, header=True,
            shuffle=training, shuffle_buffer_size=2 * batch_size + 1, sloppy=training, num_epochs=None if training else 1)
    return read


def serving_fn(tf, form):
    """What a served model takes: a tensor a column (JSON), lines (CSV) or tf.Examples (EXAMPLE)."""
    v1 = tf.compat.v1
    types = {name: {"f": tf.float32, "i": tf.int32, "s": tf.string}[type(default[0]).__name__[0]]
             for name, default in zip(COLUMNS, DEFAULTS) if name != LABEL}

    def by_column():
        given = {name: v1.placeholder(kind, [None], name) for name, kind in types.items()}
        return v1.estimator.export.ServingInputReceiver(given, given)

    def by_line():
        rows = v1.placeholder(tf.string, [None], "csv_row")
        values = tf.io.decode_csv(rows, [d for n, d in zip(COLUMNS, DEFAULTS) if n != LABEL])
        return v1.estimator.export.ServingInputReceiver(dict(zip(types, values)), {"csv_row": rows})

    def by_example():
        examples = v1.placeholder(tf.string, [None], "example_proto")
        stored = {name: tf.io.FixedLenFeature([], tf.int64 if kind == tf.int32 else kind) for name, kind in types.items()}
        read = tf.io.parse_example(examples, stored)
        return v1.estimator.export.ServingInputReceiver({n: tf.cast(v, types[n]) if types[n] == tf.int32 else v for n, v in read.items()},
                                                        {"example_proto": examples})
    return {"JSON": by_column, "CSV": by_line, "EXAMPLE": by_example}[form]

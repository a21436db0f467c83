"""model.py -- wide and deep: a linear part over buckets and crosses, a deep part over numbers and embeddings."""
import math

from trainer.data import PAYMENTS


def columns(tf):
    """(wide, deep)"""
    fc = tf.feature_column
    miles, seconds, fare = (fc.numeric_column(name) for name in ("trip_miles", "trip_seconds", "fare"))
    payment = fc.categorical_column_with_vocabulary_list("payment_type", PAYMENTS)
    company = fc.categorical_column_with_hash_bucket("company", 100)
    wide = [fc.bucketized_column(miles, list(range(5, 51, 5))), fc.bucketized_column(seconds, [900, 1800, 2700, 3600]),
            fc.crossed_column(["trip_miles", "trip_seconds"], 10_000)]
    deep = [fc.embedding_column(company, 10), fc.embedding_column(payment, math.ceil(math.sqrt(len(PAYMENTS)))), fare, miles, seconds]
    return wide, deep


def hidden_units(text, scale, layers):
    """"128,0,0" with a scale of 0.5 and 3 layers is [128, 64, 32]; without a scale the list as it is."""
    sizes = [int(part) for part in text.split(",")]
    return [max(2, int(sizes[0] * scale ** i)) for i in range(layers)] if scale > 0 else sizes


def estimator(tf, args, train_steps, config):
    v1 = tf.compat.v1
    wide, deep = columns(tf)

    def adam():
        rate = v1.train.exponential_decay(args.learning_rate, v1.train.get_global_step(), max(1, train_steps), args.learning_rate_decay_factor)
        return v1.train.AdamOptimizer(rate)
    return v1.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide, linear_optimizer=lambda: v1.train.FtrlOptimizer(args.learning_rate),
        dnn_feature_columns=deep, dnn_optimizer=adam,
        dnn_hidden_units=hidden_units(args.hidden_units, args.layer_sizes_scale_factor, args.num_layers),
        dnn_dropout=args.dropout_prob, batch_norm=True, n_classes=2, config=config,
        loss_reduction=v1.losses.Reduction.SUM_OVER_BATCH_SIZE)

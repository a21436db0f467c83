"""distribute_side.py WAY WORKLOAD FOLDER BATCH: one of TensorFlow's replicas in bench/distribute.py; TF_CONFIG says which.

WAY is
  mirrored   MultiWorkerMirroredStrategy and fit, the reference trainer's input (its CSV files; for flowers, decoded images in memory)
  cached     the same with features computed once and cached, and 64 steps in one execution
  servers    ParameterServerStrategy and its ClusterCoordinator, features cached, 10 steps in one closure
Replicas that take steps print {"ready": true} after a first few; then, for each number of steps that they read, a line
{"steps", "seconds"}: of those after the first of the call, so that what fit does to begin is not in it."""
import json
import os
import sys
import time

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):  # its gRPC would obey them, for loopback, too
    os.environ.pop(name, None)
import train_side

TOGETHER = {"mirrored": 1, "cached": 64, "servers": 10}
WARM_STEPS = 20


def serve(run, together):
    run(max(WARM_STEPS, 2 * together))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        steps, seconds = run(int(line))
        print(json.dumps({"steps": steps, "seconds": seconds}), flush=True)


# ---- all workers in step ----

def dataset(tf, trainer, workload, folder, batch, way):
    if way == "mirrored" and workload == "taxifare":
        return trainer.load_dataset(f"{folder}/taxi-train*", batch, repeat=True)  # a file a worker
    arrays = train_side.ARRAYS[workload](folder)
    y = arrays.pop("y")
    data = tf.data.Dataset.from_tensor_slices((arrays["x"] if "x" in arrays else arrays, y))
    data = data.shuffle(1000).batch(batch, drop_remainder=True).cache().repeat().prefetch(16)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return data.with_options(options)


def mirrored(tf, way, workload, folder, batch):
    sys.path.insert(0, str(train_side.TOP / "examples" / "taxifare-tf"))
    from trainer import model as trainer
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        if way == "mirrored" and workload == "taxifare":
            model = trainer.build_model(10, [32, 8], 0.001)
        else:
            together = TOGETHER[way] if workload == "taxifare" else 1
            model = train_side.KERAS[workload](tf, {"steps_per_execution": together})
    data = dataset(tf, trainer, workload, folder, batch, way)

    class Clock(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, step, logs=None):
            self.ends.append((step, time.perf_counter()))

    clock = Clock()

    def run(steps):
        clock.ends = []
        model.fit(data, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[clock])
        (first, began), (last, ended) = clock.ends[0], clock.ends[-1]
        return last - first, ended - began
    serve(run, TOGETHER[way] if workload == "taxifare" else 1)


# ---- parameter servers ----

def servers(tf, workload, folder, batch):
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type != "chief":
        tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc").join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = train_side.KERAS[workload](tf, {})
        optimizer = tf.keras.optimizers.Adam(0.001)
        optimizer.build(model.trainable_variables)
    arrays = train_side.ARRAYS[workload](folder)
    y = arrays.pop("y")

    def batches():
        return tf.data.Dataset.from_tensor_slices((arrays, y)).shuffle(1000).batch(batch, drop_remainder=True).cache().repeat().prefetch(16)

    def step(x, label):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True)[:, 0] - label))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    @tf.function
    def closure(iterator):
        for _ in tf.range(TOGETHER["servers"]):
            strategy.run(step, args=next(iterator))

    iterator = iter(coordinator.create_per_worker_dataset(batches))

    def run(steps):
        for count in (2, steps // TOGETHER["servers"]):  # the first: all workers are there
            began = time.perf_counter()
            for _ in range(count):
                coordinator.schedule(closure, args=(iterator,))
            coordinator.join()
        return count * TOGETHER["servers"], time.perf_counter() - began
    serve(run, TOGETHER["servers"])


def main():
    way, workload, folder, batch = sys.argv[1:]
    import tensorflow as tf
    tf.get_logger().setLevel("ERROR")
    if way == "servers":
        servers(tf, workload, folder, int(batch))
    else:
        mirrored(tf, way, workload, folder, int(batch))


if __name__ == "__main__":
    main()

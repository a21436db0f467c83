/* test_together.c -- several workers, or devices, at one run: the bits of one; who writes; what
 * cannot be. Workers are forked children of the test. */
#include "train/test_place.h"

#include <sys/wait.h>

enum { MOST = 4 };

/* Sums over the batch, an embedding that a dense layer does not read first, and a wide part. */
static const char MIXED[] =
    "name: mixed\n"
    "parameters: {epochs: 2}\n"
    "input:\n"
    "  columns:\n"
    "    - {name: y, type: float}\n"
    "    - {name: x, type: float}\n"
    "    - {name: id, type: int, default: 0}\n"
    "features:\n"
    "  - {name: c, identity: id, buckets: 50}\n"
    "wide: {input: [c]}\n"
    "network:\n"
    "  input: [x, {embedding: c, size: 9}]\n"
    "  layers: [{batch_norm: }, {dense: 8, name: h, activation: relu}, {batch_norm: },\n"
    "           {dense: 1, name: out}]\n"
    "head: {type: regression, label: y, output: fare}\n"
    "training: {optimizer: {type: adam, learning_rate: 0.01}, batch_size: 31, epochs: epochs,\n"
    "           clip_norm: 1.5, metrics: [rmse]}\n";

static void cluster_set(struct place *p, int size, int rank)
{
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    ty_buf_addz(&b, "{\"cluster\": {\"chief\": [\"localhost:1\"], \"worker\": [");
    for (int i = 1; i < size; i++)
        ty_buf_addf(&b, "%s\"localhost:%d\"", i > 1 ? ", " : "", 1 + i);
    ty_buf_addf(&b, "]}, \"task\": {\"type\": \"%s\", \"index\": %d}}", rank ? "worker" : "chief",
                rank ? rank - 1 : 0);
    p->options.tf_config = ty_format(&p->arena, "%s", b.ptr);
    setenv("TRAINYARD_MEETING", ty_format(&p->arena, "%s/meeting", p->dir), 1);
    ty_buf_clear(&b);
}

/* Start the workers of a run of `size`; the test becomes its chief. */
static void workers_start(struct place *p, int size, pid_t *pids)
{
    fflush(stdout);
    for (int rank = 1; rank < size; rank++) {
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank] > 0)
            continue;
        struct train_result r;
        cluster_set(p, size, rank);
        ty_err err = train_run(&p->options, &r);
        if (err != TY_OK)
            fprintf(stderr, "%s\n", ty_err_message());
        _exit(err);
    }
    cluster_set(p, size, 0);
}

static void workers_end(struct place *p, const pid_t *pids, int size, ty_err expected)
{
    p->options.tf_config = NULL;
    unsetenv("TRAINYARD_MEETING");
    for (int rank = 1; rank < size; rank++) {
        int status;
        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), expected);
    }
}

static void same_for_all_sizes(const char *model)
{
    struct place p;
    pid_t pids[MOST];
    place_init(&p);
    p.options.model_text = model;
    ty_str expected = run_weights(&p, "alone");
    for (int size = 2; size <= MOST; size += 2) {
        out_dir(&p, ty_format(&p.arena, "out%d", size));
        workers_start(&p, size, pids);
        ty_str bytes = run_weights(&p, NULL);
        workers_end(&p, pids, size, TY_OK);
        assert_same(bytes, expected);
    }
    place_clear(&p);
}

static void workers_give_the_bits_of_one(void **state)
{
    (void)state;
    same_for_all_sizes(MODEL);
}

static void workers_sum_over_the_batch(void **state)
{
    (void)state;
    same_for_all_sizes(MIXED);
}

/* Layer by layer, while backward runs: other sums, the same bits. */
static void buckets_give_the_bits_of_one(void **state)
{
    (void)state;
    setenv("TRAINYARD_TEST_BUCKET", "64", 1);
    same_for_all_sizes(MODEL);
    same_for_all_sizes(MIXED);
    unsetenv("TRAINYARD_TEST_BUCKET");
}

/* What the chief prints goes to a file. */
static int stdout_to(struct place *p, const char *name)
{
    fflush(stdout);
    int was = dup(1), fd = open(ty_format(&p->arena, "%s/%s", p->dir, name),
                                O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(was >= 0 && fd >= 0);
    dup2(fd, 1);
    close(fd);
    return was;
}

static void stdout_back(int was)
{
    fflush(stdout);
    dup2(was, 1);
    close(was);
}

/* Backward meets at each batch_norm, so the buckets above it are ready in all ranks by then. */
static void sums_begin_before_backward_ends(void **state)
{
    (void)state;
    struct place p;
    pid_t pids[MOST];
    ty_str text;
    uint64_t buckets = 0, early = 0;
    place_init(&p);
    p.options.model_text = MIXED;
    p.options.quiet = false;
    setenv("TRAINYARD_TEST_BUCKET", "64", 1);
    out_dir(&p, "out");
    workers_start(&p, 2, pids);
    int was = stdout_to(&p, "log");
    run_weights(&p, NULL);
    stdout_back(was);
    workers_end(&p, pids, 2, TY_OK);
    unsetenv("TRAINYARD_TEST_BUCKET");
    assert_ok(
        ty_file_read(AT_FDCWD, ty_format(&p.arena, "%s/log", p.dir), 1 << 20, &p.arena, &text));
    assert_non_null(strstr(text.ptr, "summed in 5 buckets while backward runs"));
    const char *line = strstr(text.ptr, "chief: of ");
    assert_non_null(line);
    assert_int_equal(
        sscanf(line, "chief: of %" SCNu64 " buckets of gradients, %" SCNu64, &buckets, &early), 2);
    assert_int_equal(buckets, 5 * 20);
    assert_true(early >= 20 && early <= buckets);
    place_clear(&p);
}

/* A replica whose gradients are thrown away is missed in buckets, too. */
static void buckets_are_everybodys(void **state)
{
    (void)state;
    struct place p;
    pid_t pids[MOST];
    place_init(&p);
    setenv("TRAINYARD_TEST_BUCKET", "64", 1);
    setenv("TRAINYARD_TEST_ZERO_REPLICA", "1", 1);
    ty_str expected = run_weights(&p, "alone"); /* which has no replica 1 */
    out_dir(&p, "out");
    workers_start(&p, 2, pids);
    ty_str bytes = run_weights(&p, NULL);
    workers_end(&p, pids, 2, TY_OK);
    unsetenv("TRAINYARD_TEST_BUCKET");
    unsetenv("TRAINYARD_TEST_ZERO_REPLICA");
    assert_int_equal(bytes.len, expected.len);
    assert_memory_not_equal(bytes.ptr, expected.ptr, bytes.len);
    place_clear(&p);
}

static void devices_give_the_bits_of_one(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    p.options.model_text = MIXED;
    ty_str expected = run_weights(&p, "alone");
    p.options.strategy = "mirrored";
    p.options.devices = 4;
    assert_same(run_weights(&p, "mirrored"), expected);
    p.options.devices = 3;
    struct train_result r;
    assert_err(TY_INVALID_ARGUMENT, train_run(&p.options, &r));
    assert_non_null(strstr(ty_err_message(), "3 devices"));
    place_clear(&p);
}

/* All stop after the same step, though only the chief was told to. */
static void a_stop_is_everybodys(void **state)
{
    (void)state;
    struct place p;
    pid_t pids[MOST];
    struct train_result r;
    place_init(&p);
    ty_str expected = run_weights(&p, "alone");
    out_dir(&p, "out");
    workers_start(&p, 2, pids);
    p.options.stop_at_step = 25;
    assert_err(TY_CANCELLED, train_run(&p.options, &r));
    workers_end(&p, pids, 2, TY_CANCELLED);
    p.options.stop_at_step = 0;
    p.options.resume = true;
    workers_start(&p, 2, pids);
    ty_str bytes = run_weights(&p, NULL);
    workers_end(&p, pids, 2, TY_OK);
    assert_same(bytes, expected);
    place_clear(&p);
}

static void another_seed_is_told(void **state)
{
    (void)state;
    struct place p;
    pid_t pids[MOST];
    struct train_result r;
    place_init(&p);
    out_dir(&p, "out");
    workers_start(&p, 2, pids);
    p.options.seed = 8;
    assert_err(TY_INVALID_ARGUMENT, train_run(&p.options, &r));
    assert_non_null(strstr(ty_err_message(), "worker 0 has another seed than chief"));
    workers_end(&p, pids, 2, TY_INVALID_ARGUMENT);
    assert_int_equal(access(p.options.output_dir, F_OK), -1);
    place_clear(&p);
}

static const struct CMUnitTest tests[] = {
    TEST("together/workers_give_the_bits_of_one", workers_give_the_bits_of_one),
    TEST("together/workers_sum_over_the_batch", workers_sum_over_the_batch),
    TEST("together/buckets_give_the_bits_of_one", buckets_give_the_bits_of_one),
    TEST("together/sums_begin_before_backward_ends", sums_begin_before_backward_ends),
    TEST("together/buckets_are_everybodys", buckets_are_everybodys),
    TEST("together/devices_give_the_bits_of_one", devices_give_the_bits_of_one),
    TEST("together/a_stop_is_everybodys", a_stop_is_everybodys),
    TEST("together/another_seed_is_told", another_seed_is_told),
};
TEST_MAIN("train_together", tests)

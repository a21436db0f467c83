/* test_place.h -- a place to train in, for tests: a folder with a small table and a model of it. */
#ifndef TY_TEST_PLACE_H
#define TY_TEST_PLACE_H

#define TY_SEAM
#include "base/test.h"
#include "train/train_int.h"

/* Each test program uses some of these. */
#define HELPER static __attribute__((unused))

static const char MODEL[] __attribute__((unused)) =
    "name: toy\n"
    "parameters: {batch_size: 16, epochs: 3, lr: 0.01, examples: 960, ids: 50}\n"
    "input:\n"
    "  columns:\n"
    "    - {name: y, type: float}\n"
    "    - {name: x, type: float}\n"
    "    - {name: id, type: int, default: 0}\n"
    "features:\n"
    "  - {name: c, identity: id, buckets: ids}\n"
    "network:\n"
    "  input: [x, {embedding: c, size: 9}]\n"
    "  layers: [{dense: 8, name: h, activation: relu}, {dropout: 0.1}, {dense: 1, name: out}]\n"
    "head: {type: regression, label: y, output: fare}\n"
    "training: {optimizer: {type: adam, learning_rate: lr}, batch_size: batch_size,\n"
    "           epochs: epochs, examples: examples, metrics: [rmse, mse, mae]}\n";

/* A folder with train.csv; removed by the end of the test. */
struct place {
    struct ty_arena arena;
    char dir[64];
    struct train_options options;
};

HELPER void write_text(struct place *p, const char *name, const char *text)
{
    assert_ok(ty_file_replace(AT_FDCWD, ty_format(&p->arena, "%s/%s", p->dir, name),
                              ty_str_of(text), 0644));
}

HELPER void place_init(struct place *p)
{
    struct ty_buf b;
    memset(p, 0, sizeof *p);
    snprintf(p->dir, sizeof p->dir, "/tmp/test_train.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    ty_buf_init(&b, 1 << 20);
    for (int i = 0; i < 300; i++) /* some ids are rare: they wait for many steps */
        ty_buf_addf(&b, "%d.5,%.3f,%d\n", i % 7, (double)(i % 13) / 13,
                    i % 50 < 5 ? i % 50 : i % 5);
    write_text(p, "train.csv", b.ptr);
    ty_buf_clear(&b);
    p->options = (struct train_options){.model = "toy.yaml",
                                        .model_text = MODEL,
                                        .quiet = true,
                                        .seed = 7,
                                        .threads = 2,
                                        .train_count = 1,
                                        .eval_count = 1};
    p->options.train_paths[0] = p->options.eval_paths[0] =
        ty_format(&p->arena, "%s/train.csv", p->dir);
}

HELPER void place_clear(struct place *p)
{
    assert_ok(ty_remove_tree(AT_FDCWD, p->dir));
    ty_arena_clear(&p->arena);
}

HELPER void set(struct place *p, const char *name, const char *value)
{
    p->options.settings[p->options.setting_count++] =
        (struct nn_setting){ty_str_of(name), ty_str_of(value)};
}

HELPER const char *out_dir(struct place *p, const char *name)
{
    return p->options.output_dir = ty_format(&p->arena, "%s/%s", p->dir, name);
}

/* The exported variables of a run. */
HELPER ty_str run_weights(struct place *p, const char *name)
{
    struct train_result r;
    ty_str bytes;
    if (name != NULL)
        out_dir(p, name);
    assert_ok(train_run(&p->options, &r));
    assert_ok(ty_file_read(
        AT_FDCWD, ty_format(&p->arena, "%s/variables/variables.data-00000-of-00001", r.export_dir),
        1 << 26, &p->arena, &bytes));
    return bytes;
}

HELPER void assert_same(ty_str a, ty_str b)
{
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.ptr, b.ptr, a.len);
}

#endif

/* test_event.c -- TensorBoard's event files: TensorFlow's read, ours read back. */
#include "formats/test_formats.h"

#include <math.h>

/* The next value of a file, passing over other events. */
static ty_err value_next(struct tfrecord_reader *r, struct event *e, struct event_value *v)
{
    for (;;) {
        ty_str record;
        ty_err err = e->kind == EVENT_SUMMARY ? event_value_next(&e->body, v) : TY_OUT_OF_RANGE;
        if (err != TY_OUT_OF_RANGE)
            return err;
        if ((err = tfrecord_read(r, &record)) || (err = event_parse(record, e)))
            return err;
    }
}

static void event_reads_tensorflows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct tfrecord_reader r = {.file = golden(&a, "events.v2")};
    struct event e = {0};
    struct event_value v;
    for (int64_t step = 0; step < 20; step++) {
        assert_ok(value_next(&r, &e, &v));
        assert_true(ty_str_is(v.tag, "epoch_loss") && ty_str_is(v.plugin, "scalars"));
        assert_true(e.step == step && v.is_scalar && (float)v.scalar == 1.0f / (float)(step + 1));
        assert_true(e.seconds > 1.7e9);
    }
    assert_ok(value_next(&r, &e, &v));
    assert_true(ty_str_is(v.plugin, "histograms") && !v.is_scalar);
    assert_ok(value_next(&r, &e, &v));
    assert_true(ty_str_is(v.plugin, "text") && !v.is_scalar && e.step == 2);
    assert_err(TY_OUT_OF_RANGE, value_next(&r, &e, &v));

    r = (struct tfrecord_reader){.file = golden(&a, "events.old")};
    e = (struct event){0};
    assert_ok(value_next(&r, &e, &v));
    assert_true(ty_str_is(v.tag, "rmse") && v.is_scalar && v.scalar == 2.5 && e.step == 7);
    ty_arena_clear(&a);
}

static void event_round_trip(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 100000);
    float values[] = {1, 2, 3, (float)INFINITY};
    event_version(&b, 1.5);
    event_scalar(&b, 2.5, 3, TY_STR("loss"), 0.125f);
    event_histogram(&b, 3.5, 4, TY_STR("w"), values, 4);
    event_text(&b, 4.5, 5, TY_STR("note"), TY_STR("hi"));
    event_graph(&b, 5.5, TY_STR("graph"));
    struct tfrecord_reader r = {.file = ty_buf_str(&b)};
    struct event e = {0};
    struct event_value v = {0};
    ty_str record = {0};
    assert_ok(tfrecord_read(&r, &record));
    assert_ok(event_parse(record, &e));
    assert_true(e.kind == EVENT_VERSION && ty_str_is(e.body, "brain.Event:2") && e.seconds == 1.5);
    assert_ok(value_next(&r, &e, &v));
    assert_true(v.is_scalar && v.scalar == 0.125 && e.step == 3 && ty_str_is(v.tag, "loss"));
    assert_ok(value_next(&r, &e, &v));
    assert_true(ty_str_is(v.plugin, "histograms"));
    assert_ok(value_next(&r, &e, &v));
    assert_true(ty_str_is(v.plugin, "text"));
    assert_ok(tfrecord_read(&r, &record));
    assert_ok(event_parse(record, &e));
    assert_true(e.kind == EVENT_GRAPH && ty_str_is(e.body, "graph"));
    ty_buf_clear(&b);
}

static void event_broken_bytes(void **state)
{
    (void)state;
    struct event e;
    struct event_value v;
    assert_err(TY_DATA_LOSS, event_parse(TY_STR("\x09\x01"), &e));
    assert_message("no TensorBoard event");
    ty_str rest = TY_STR("\x0a\x02\x0a\x05");
    assert_err(TY_DATA_LOSS, event_value_next(&rest, &v));
    assert_message("no TensorBoard summary");
}

static void event_name_of_a_file(void **state)
{
    (void)state;
    char name[EVENT_NAME_BYTES];
    assert_string_equal(event_file_name(1700000000, "host", 42, name),
                        "events.out.tfevents.1700000000.host.42.0.v2");
}

static const struct CMUnitTest tests[] = {
    TEST("event/reads_tensorflows", event_reads_tensorflows),
    TEST("event/round_trip", event_round_trip),
    TEST("event/broken_bytes", event_broken_bytes),
    TEST("event/name_of_a_file", event_name_of_a_file),
};
RUN_GROUP(event)

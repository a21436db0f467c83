/* test_train.c -- runs that stop and go on, optimizers that wait, data with mistakes, metrics. */
#include "train/test_place.h"

#include <math.h>

static void run_learns(void **state)
{
    (void)state;
    struct place p;
    struct train_result few, many;
    place_init(&p);
    set(&p, "epochs", "1");
    set(&p, "examples", "160");
    assert_ok(train_run(&p.options, &few));
    set(&p, "examples", "16000");
    assert_ok(train_run(&p.options, &many));
    assert_int_equal(few.steps, 10);
    assert_true(many.val_loss < 0.9 * few.val_loss);
    place_clear(&p);
}

static void run_threads_do_not_change_a_bit(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    p.options.threads = 1;
    ty_str one = run_weights(&p, "one");
    p.options.threads = 2;
    ty_str two = run_weights(&p, "two");
    p.options.threads = 4;
    ty_str four = run_weights(&p, "four");
    assert_same(one, two);
    assert_same(one, four);
    p.options.seed = 8;
    ty_str other = run_weights(&p, "other");
    assert_true(memcmp(one.ptr, other.ptr, one.len) != 0);
    place_clear(&p);
}

static void resume_is_exact(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    place_init(&p);
    ty_str whole = run_weights(&p, "whole");
    out_dir(&p, "parts");
    static const int stops[] = {1, 19, 20, 21, 45, 59};
    p.options.resume = true;
    for (size_t i = 0; i < TY_COUNT(stops); i++) {
        p.options.stop_at_step = stops[i];
        assert_err(TY_CANCELLED, train_run(&p.options, &r));
        assert_message("stopped by SIGTERM after step");
    }
    p.options.stop_at_step = 0;
    assert_ok(train_run(&p.options, &r));
    char *first = ty_format(&p.arena, "%s", r.export_dir);
    assert_same(whole, run_weights(&p, NULL)); /* it is over: nothing is done again */
    assert_ok(train_run(&p.options, &r));
    assert_string_equal(r.export_dir, first);
    assert_ok(ty_remove_tree(AT_FDCWD, first)); /* the model is lost: it is exported again */
    assert_same(whole, run_weights(&p, NULL));
    place_clear(&p);
}

/* kill -9 between epochs' checkpoints is a run that begins at the last of them; one that is torn is
 * passed over for the one before. */
static void resume_passes_over_a_torn_checkpoint(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    place_init(&p);
    ty_str whole = run_weights(&p, "whole");
    out_dir(&p, "parts");
    p.options.stop_at_step = 45;
    assert_err(TY_CANCELLED, train_run(&p.options, &r));
    char *data = ty_format(&p.arena, "%s/parts/checkpoints/ckpt-45.data-00000-of-00001", p.dir);
    int fd = open(data, O_RDWR | O_CLOEXEC);
    char byte;
    assert_int_equal(pread(fd, &byte, 1, 9000), 1);
    byte = (char)(byte ^ 4);
    assert_int_equal(pwrite(fd, &byte, 1, 9000), 1);
    close(fd);
    p.options.resume = true;
    p.options.stop_at_step = 41; /* the one before is of step 40 */
    assert_err(TY_CANCELLED, train_run(&p.options, &r));
    p.options.stop_at_step = 0;
    assert_same(whole, run_weights(&p, NULL));
    place_clear(&p);
}

static void resume_refuses_another_run(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    place_init(&p);
    out_dir(&p, "out");
    p.options.stop_at_step = 5;
    assert_err(TY_CANCELLED, train_run(&p.options, &r));
    p.options.resume = true;
    set(&p, "lr", "0.5");
    assert_err(TY_FAILED_PRECONDITION, train_run(&p.options, &r));
    assert_message("it is of another run, which differs in parameters: leave out --resume");
    p.options.setting_count = 0;
    p.options.seed = 8;
    assert_err(TY_FAILED_PRECONDITION, train_run(&p.options, &r));
    assert_message("differs in seed: ");
    p.options.seed = 7;
    p.options.model_text = ty_format(&p.arena, "%s# more\n", MODEL);
    write_text(&p, "train.csv", "1,2,3\n");
    assert_err(TY_FAILED_PRECONDITION, train_run(&p.options, &r));
    assert_message("differs in model file, data: ");
    assert_message("--init_from begins with the weights");
    place_clear(&p);
}

static void checkpoints_last_and_best_are_kept(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    place_init(&p);
    char *text = ty_format(&p.arena, "%.*s, keep_best: true, keep_checkpoints: 2}\n",
                           (int)(sizeof MODEL - 3), MODEL);
    p.options.model_text = text;
    out_dir(&p, "out");
    assert_ok(train_run(&p.options, &r));
    static const struct {
        const char *name;
        bool there;
    } files[] = {{"ckpt-20.index", false},
                 {"ckpt-40.index", true},
                 {"ckpt-60.index", true},
                 {"best.index", true},
                 {"checkpoint", true}};
    for (size_t i = 0; i < TY_COUNT(files); i++)
        assert_int_equal(
            access(ty_format(&p.arena, "%s/out/checkpoints/%s", p.dir, files[i].name), R_OK) == 0,
            files[i].there);
    place_clear(&p);
}

/* ---- optimizers ---- */

/* Every row brought up to date after every step, as Keras does it, against rows that wait. */
static void optimizer_deferred_is_exact(void **state)
{
    (void)state;
    struct place p;
    static const char *const kinds[] = {
        "adam", "sgd, momentum: 0.9", "rmsprop, momentum: 0.5", "rmsprop", "adagrad", "ftrl"};
    place_init(&p);
    for (size_t k = 0; k < TY_COUNT(kinds); k++) {
        struct nn_model *m;
        struct train_data d;
        struct nn_net *nets[2];
        struct train_optimizer *o[2];
        struct nn_param *params[2];
        struct tensor_team *team = tensor_team_new(1);
        const char *at = strstr(MODEL, "type: adam");
        char *text = ty_format(&p.arena, "%.*stype: %s%s", (int)(at - MODEL), MODEL, kinds[k],
                               at + strlen("type: adam"));
        assert_ok(nn_model_parse(&p.arena, "toy", ty_str_of(text), NULL, 0, &m));
        assert_ok(train_data_load(m, p.options.train_paths, 1, team, NULL, &d));
        for (int i = 0; i < 2; i++) {
            assert_ok(nn_net_new(m, 16, 4, 1, team, NULL, &nets[i]));
            o[i] = train_optimizer_new(nets[i], 300);
            nn_flush_denormals();
            for (size_t step = 0; step < 300; step++) {
                struct nn_batch b = {.rows = &d.rows,
                                     .first = step * 16 % 280,
                                     .count = 16,
                                     .step = step,
                                     .training = true};
                train_optimizer_ready(o[i], &b);
                (void)nn_net_forward(nets[i], &b);
                nn_net_backward(nets[i]);
                train_optimizer_step(o[i], 1);
                if (i == 1)
                    train_optimizer_settle(o[i]);
            }
            train_optimizer_settle(o[i]);
        }
        size_t count = nn_net_params(nets[0], &params[0]);
        nn_net_params(nets[1], &params[1]);
        for (size_t i = 0; i < count; i++)
            assert_memory_equal(params[0][i].data, params[1][i].data,
                                params[0][i].count * sizeof(float));
        for (int i = 0; i < 2; i++) {
            train_optimizer_free(o[i]);
            nn_net_free(nets[i]);
        }
        train_data_clear(&d);
        tensor_team_free(team);
    }
    place_clear(&p);
}

/* ---- data ---- */

static void expect_failure(struct place *p, const char *csv, ty_err code, const char *message)
{
    struct train_result r;
    write_text(p, "train.csv", csv);
    assert_err(code, train_run(&p->options, &r));
    assert_message(message);
}

static void data_mistakes_name_file_and_line(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    expect_failure(&p, "", TY_INVALID_ARGUMENT, "train.csv' has no rows");
    expect_failure(&p, "1,2,3\n1,x,3\n", TY_INVALID_ARGUMENT, "train.csv: line 2, column 2 (x)");
    expect_failure(&p, "1,2,3\n\n1,2,3\n1,2,99\n", TY_INVALID_ARGUMENT,
                   "train.csv: line 4: 'c' is 99, not from 0 to 49");
    expect_failure(&p, "1,2,3\n,2,3\n", TY_INVALID_ARGUMENT, "line 2, column 1 (y)");
    expect_failure(&p, "1,2,3\nnan,2,3\n", TY_INVALID_ARGUMENT,
                   "line 2: label 'y' is nan, not finite");
    expect_failure(&p, "1e20,2,3\n", TY_INVALID_ARGUMENT, "the loss of step 1 is not finite");
    p.options.train_paths[0] = "/tmp/no/such/file*";
    expect_failure(&p, "1,2,3\n", TY_NOT_FOUND, "no file matches '/tmp/no/such/file*'");
    place_clear(&p);
}

static void data_bad_rows_are_skipped_and_counted(void **state)
{
    (void)state;
    struct place p;
    struct nn_model *m;
    struct train_data d;
    struct tensor_team *team = tensor_team_new(2);
    place_init(&p);
    char *text = ty_format(&p.arena, "%.*s, bad_rows: skip}\n", (int)(sizeof MODEL - 3), MODEL);
    assert_ok(nn_model_parse(&p.arena, "toy", ty_str_of(text), NULL, 0, &m));
    write_text(&p, "train.csv", "1,2,3\n1,x,3\n2,2,99\n3,2,4\n4,2,-1\n5,2,5\n");
    assert_ok(train_data_load(m, p.options.train_paths, 1, team, NULL, &d));
    assert_int_equal(d.rows.count, 3);
    assert_int_equal(d.bad_rows, 3);
    assert_true(d.rows.labels[1] == 3 && d.rows.ids[2] == 5 && d.rows.labels[2] == 5);
    train_data_clear(&d);
    tensor_team_free(team);
    place_clear(&p);
}

static void data_header_finds_columns(void **state)
{
    (void)state;
    struct place p;
    struct nn_model *m;
    struct train_data d;
    struct tensor_team *team = tensor_team_new(2);
    place_init(&p);
    char *text = ty_format(&p.arena, "%.*s\n  header: true\n  columns:%s",
                           (int)(strstr(MODEL, "\n  columns:") - MODEL), MODEL,
                           strstr(MODEL, "\n  columns:") + strlen("\n  columns:"));
    assert_ok(nn_model_parse(&p.arena, "toy", ty_str_of(text), NULL, 0, &m));
    write_text(&p, "train.csv", "id,other,x,y\n7,abc,0.5,3\n");
    assert_ok(train_data_load(m, p.options.train_paths, 1, team, NULL, &d));
    assert_true(d.rows.count == 1 && d.rows.ids[0] == 7 && d.rows.labels[0] == 3);
    train_data_clear(&d);
    write_text(&p, "train.csv", "id,other,y\n7,abc,3\n");
    assert_err(TY_INVALID_ARGUMENT, train_data_load(m, p.options.train_paths, 1, team, NULL, &d));
    assert_message("'x'");
    tensor_team_free(team);
    place_clear(&p);
}

static struct nn_model *records_model(struct place *p)
{
    struct nn_model *m;
    char *text = ty_format(&p->arena, "%.*s\n  format: tfrecord\n  columns:%s",
                           (int)(strstr(MODEL, "\n  columns:") - MODEL), MODEL,
                           strstr(MODEL, "\n  columns:") + strlen("\n  columns:"));
    assert_ok(nn_model_parse(&p->arena, "toy", ty_str_of(text), NULL, 0, &m));
    return m;
}

/* A record of y and x, and of the id if it is to have one. */
static void record_write(struct ty_buf *file, float y, float x, int64_t id, bool has_id)
{
    struct ty_buf one;
    struct example_feature features[] = {{TY_STR("y"), EXAMPLE_FLOAT, 1, 1, false},
                                         {TY_STR("x"), EXAMPLE_FLOAT, 1, 1, false},
                                         {TY_STR("id"), EXAMPLE_INT64, 1, 1, false}};
    struct example_slot slots[] = {
        {.floats = &y, .count = 1}, {.floats = &x, .count = 1}, {.ints = &id, .count = 1}};
    ty_buf_init(&one, 1 << 16);
    example_encode(&one, features, slots, has_id ? 3 : 2);
    tfrecord_write(file, ty_buf_str(&one));
    ty_buf_clear(&one);
}

static void data_records_are_read(void **state)
{
    (void)state;
    struct place p;
    struct nn_model *m;
    struct train_data d;
    struct tensor_team *team = tensor_team_new(2);
    struct ty_buf file;
    place_init(&p);
    m = records_model(&p);
    ty_buf_init(&file, 1 << 16);
    for (int64_t i = 0; i < 3; i++) /* the second lacks the id, which has a default */
        record_write(&file, (float)i, 0.5f, i, i != 1);
    const char *path = ty_format(&p.arena, "%s/train.csv", p.dir);
    assert_ok(ty_file_replace(AT_FDCWD, path, ty_buf_str(&file), 0644));
    assert_ok(train_data_load(m, p.options.train_paths, 1, team, NULL, &d));
    assert_int_equal(d.rows.count, 3);
    assert_true(d.rows.ids[2] == 2 && d.rows.ids[1] == 0 && d.rows.labels[1] == 1);
    train_data_clear(&d);
    file.ptr[file.len - 3] ^= 1;
    assert_ok(ty_file_replace(AT_FDCWD, path, ty_buf_str(&file), 0644));
    assert_err(TY_DATA_LOSS, train_data_load(m, p.options.train_paths, 1, team, NULL, &d));
    assert_message("train.csv: record 3: record at byte");
    assert_message("checksum");
    m->training.skip_bad_rows = true;
    assert_ok(train_data_load(m, p.options.train_paths, 1, team, NULL, &d));
    assert_true(d.rows.count == 2 && d.bad_rows == 1);
    train_data_clear(&d);
    file.ptr[0] ^= 1; /* the first length: nothing after it can be found */
    assert_ok(ty_file_replace(AT_FDCWD, path, ty_buf_str(&file), 0644));
    assert_err(TY_INVALID_ARGUMENT, train_data_load(m, p.options.train_paths, 1, team, NULL, &d));
    assert_message("has no rows; the first bad one: ");
    ty_buf_clear(&file);
    tensor_team_free(team);
    place_clear(&p);
}

static void order_passes_are_permutations(void **state)
{
    (void)state;
    struct train_order o;
    uint32_t rows[1000], first[100];
    train_order_init(&o, 100, 1000, true, 5);
    train_order_take(&o, 0, 1000, rows);
    for (int pass = 0; pass < 10; pass++) {
        bool seen[100] = {false};
        for (int i = 0; i < 100; i++)
            seen[rows[pass * 100 + i]] = true;
        for (int i = 0; i < 100; i++)
            assert_true(seen[i]);
    }
    assert_true(memcmp(rows, rows + 100, sizeof first) != 0);
    train_order_take(&o, 150, 100, first); /* from the middle, as a run that goes on */
    assert_memory_equal(first, rows + 150, sizeof first);
    train_order_clear(&o);
}

/* ---- pictures ---- */

static void picture_is_drawn(void **state)
{
    (void)state;
    struct canvas c;
    struct ty_buf b;
    canvas_init(&c, 40, 30, 0xffffff);
    canvas_line(&c, (double[2]){5, 5}, (double[2]){30, 5}, 3, 0xff0000);
    canvas_text(&c, 4, 12, "1?", 1, 0x000000);
    const uint8_t *line = c.pixels + (5 * 40 + 10) * 3, *edge = c.pixels + (7 * 40 + 10) * 3;
    assert_true(line[0] == 255 && line[1] == 0 && line[2] == 0);
    assert_true(edge[0] == 255 && edge[1] == 255); /* beyond its width */
    assert_true(c.pixels[(12 * 40 + 6) * 3] == 0); /* the one's stem */
    assert_int_equal(canvas_text_width("123", 2), 34);
    ty_buf_init(&b, 1 << 20);
    assert_ok(canvas_png(&c, &b));
    assert_memory_equal(b.ptr, "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x28\0\0\0\x1e", 24);
    ty_buf_clear(&b);
    canvas_clear(&c);
}

static void plot_is_written(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    place_init(&p);
    out_dir(&p, "out");
    p.options.plot = true;
    int keep = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    ty_err err = train_run(&p.options, &r);
    dup2(keep, STDOUT_FILENO);
    close(keep);
    close(nowhere);
    assert_ok(err);
    ty_str png;
    assert_ok(ty_file_read(AT_FDCWD, ty_format(&p.arena, "%s/out/curves.png", p.dir), 1 << 24,
                           &p.arena, &png));
    /* loss, rmse, mae: two panels beside one; mse is the loss again */
    assert_memory_equal(png.ptr + 16, "\0\0\x05\0\0\0\x03\x20", 8);
    place_clear(&p);
}

/* Windows of blocks from all over: still each row once a pass, and any place can be asked for. */
static void order_windows_are_permutations(void **state)
{
    (void)state;
    struct train_order o, other;
    uint32_t rows[3000], part[7];
    enum { COUNT = 1000 };
    train_order_init(&o, COUNT, 128, true, 5);
    assert_int_equal(o.block, 8);
    assert_int_equal(train_order_windows(&o), 8);
    train_order_take(&o, 0, 3000, rows);
    for (int pass = 0; pass < 3; pass++) {
        bool seen[COUNT] = {false};
        uint32_t low = COUNT, high = 0; /* of the first window */
        for (int i = 0; i < COUNT; i++)
            seen[rows[pass * COUNT + i]] = true;
        for (int i = 0; i < COUNT; i++)
            assert_true(seen[i]);
        for (int i = 0; i < 128; i++) {
            uint32_t row = rows[pass * COUNT + i];
            low = row < low ? row : low;
            high = row > high ? row : high;
        }
        assert_true(high - low > COUNT / 2);
    }
    assert_memory_not_equal(rows, rows + COUNT, 500 * sizeof *rows);
    train_order_init(&other, COUNT, 128, true, 5);
    for (size_t at = 2990; at > 100; at -= 123) {
        train_order_take(&other, at, TY_COUNT(part), part);
        assert_memory_equal(part, rows + at, sizeof part);
    }
    train_order_clear(&other);
    train_order_clear(&o);
}

/* ---- data that does not fit in memory ---- */

static const char *small_windows(struct place *p, const char *more)
{
    return ty_format(&p->arena, "%.*s, shuffle_window: 64%s}\n", (int)strlen(MODEL) - 2, MODEL,
                     more);
}

/* Rows that are read again in every pass train the same weights as rows in memory, and a run that
 * was stopped goes on with either. */
static void stream_is_the_same_to_the_bit(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    place_init(&p);
    p.options.model_text = small_windows(&p, "");
    ty_str memory = run_weights(&p, "memory");
    p.options.cache_bytes = 1;
    ty_str stream = run_weights(&p, "stream");
    assert_same(memory, stream);
    p.options.output_dir = ty_format(&p.arena, "%s/parts", p.dir);
    p.options.resume = true;
    for (int stop = 7; stop < 60; stop += 11) {
        p.options.cache_bytes = stop % 2 ? 1 : 0;
        p.options.stop_at_step = stop;
        assert_err(TY_CANCELLED, train_run(&p.options, &r));
    }
    p.options.stop_at_step = 0;
    assert_same(memory, run_weights(&p, "parts"));
    place_clear(&p);
}

/* Each pass has the rows of the file, each once, whatever is in memory. */
static void stream_has_every_row_once_a_pass(void **state)
{
    (void)state;
    struct place p;
    struct nn_model *m;
    struct train_data d;
    struct nn_batch b;
    _Atomic size_t room = 1;
    place_init(&p);
    assert_ok(nn_model_parse(&p.arena, "toy.yaml", ty_str_of(small_windows(&p, "")), NULL, 0, &m));
    struct tensor_team *team = tensor_team_new(2);
    assert_ok(train_data_load(m, p.options.train_paths, 1, team, &room, &d));
    assert_non_null(d.source);
    assert_null(d.rows.floats);
    assert_int_equal(d.rows.count, 300);
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        struct train_feed *f = train_feed_new(m, &d, 16, shuffle, false, 3, 2);
        for (uint64_t pass = 0; pass < 3; pass++) {
            double sum = 0, want = 0;
            size_t seen = 0, labels[7] = {0};
            for (size_t i = 0; i < train_feed_batches(f); i++) {
                assert_ok(train_feed_take(f, pass * train_feed_batches(f) + i, &b));
                for (size_t k = 0; k < b.count; k++, seen++) {
                    labels[(int)b.rows->labels[k]]++;
                    sum += (double)b.rows->floats[k * b.rows->floats_each] * b.rows->labels[k];
                    if (!shuffle)
                        assert_int_equal((int)b.rows->labels[k], seen % 7);
                }
            }
            for (int i = 0; i < 300; i++)
                want += (double)(float)((double)(i % 13) / 13) * (i % 7 + 0.5);
            assert_int_equal(seen, 300);
            assert_int_equal(labels[0], 43);
            assert_true(fabs(sum - want) < 1);
        }
        train_feed_free(f);
    }
    train_data_clear(&d);
    tensor_team_free(team);
    place_clear(&p);
}

/* A file of several pieces: any rows of it, read again, are those that were kept. */
static void pieces_check(struct place *p, struct nn_model *m, size_t count)
{
    struct train_data kept, again;
    _Atomic size_t room = 1;
    struct tensor_team *team = tensor_team_new(2);
    enum { SOME = 700 };
    float floats[SOME], labels[SOME];
    int32_t ids[SOME];
    struct nn_rows some = {.floats_each = 1, .ids_each = 1};
    some.floats = floats;
    some.ids = ids;
    some.labels = labels;
    m->training.shuffle_window = 64;
    assert_ok(train_data_load(m, p->options.train_paths, 1, team, NULL, &kept));
    assert_ok(train_data_load(m, p->options.train_paths, 1, team, &room, &again));
    assert_null(kept.source);
    assert_non_null(again.source);
    assert_int_equal(kept.rows.count, count);
    assert_int_equal(again.rows.count, count);
    assert_true(kept.id == again.id);
    for (size_t row = 0; row + SOME <= count; row += count / 9) {
        assert_ok(train_source_read(again.source, row, SOME, &some, 0));
        assert_memory_equal(floats, kept.rows.floats + row, sizeof floats);
        assert_memory_equal(ids, kept.rows.ids + row, sizeof ids);
        assert_memory_equal(labels, kept.rows.labels + row, sizeof labels);
    }
    train_data_clear(&kept);
    train_data_clear(&again);
    tensor_team_free(team);
}

static void stream_reads_pieces(void **state)
{
    (void)state;
    struct place p;
    struct nn_model *m;
    struct ty_buf file;
    enum { ROWS = 160000, RECORDS = 60000 };
    place_init(&p);
    const char *path = p.options.train_paths[0];
    ty_buf_init(&file, 1 << 24);
    for (int i = 0; i < ROWS; i++)
        ty_buf_addf(&file, "%d.25,%d.5,%d\n", i, i % 1000, i % 50);
    assert_ok(ty_file_replace(AT_FDCWD, path, ty_buf_str(&file), 0644));
    assert_ok(nn_model_parse(&p.arena, "toy", ty_str_of(MODEL), NULL, 0, &m));
    pieces_check(&p, m, ROWS);
    ty_buf_clear(&file);
    ty_buf_init(&file, 1 << 24);
    for (int i = 0; i < RECORDS; i++)
        record_write(&file, (float)i, (float)(i % 1000), i % 50, true);
    assert_true(file.len > 2 << 20);
    assert_ok(ty_file_replace(AT_FDCWD, path, ty_buf_str(&file), 0644));
    m = records_model(&p);
    pieces_check(&p, m, RECORDS);
    file.ptr[file.len - 3] ^= 1; /* numbers of records are those of the file */
    assert_ok(ty_file_replace(AT_FDCWD, path, ty_buf_str(&file), 0644));
    struct train_data d;
    struct tensor_team *team = tensor_team_new(2);
    assert_err(TY_DATA_LOSS, train_data_load(m, p.options.train_paths, 1, team, NULL, &d));
    assert_message("record 60000: record at byte");
    tensor_team_free(team);
    ty_buf_clear(&file);
    place_clear(&p);
}

/* What may become of a file while its rows are read again in each pass. */
static void change_a_byte(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "9", 1, 0), 1);
    close(fd);
}
static void change_nothing_but_write(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "0", 1, 0), 1);
    close(fd);
}
static void change_to_the_same_time(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    change_a_byte(path);
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}
static void change_append(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_ok(ty_write_all(fd, "1,2,3\n", 6));
    close(fd);
}
static void change_shorten(const char *path)
{
    assert_int_equal(truncate(path, 10), 0);
}
static void change_replace(const char *path)
{
    struct ty_arena a = {0};
    ty_str text;
    assert_ok(ty_file_read(AT_FDCWD, path, 1 << 20, &a, &text));
    assert_ok(ty_file_replace(AT_FDCWD, path, text, 0644));
    ty_arena_clear(&a);
}
static void change_remove(const char *path)
{
    assert_int_equal(unlink(path), 0);
}
static void change_link(const char *path)
{
    char other[PATH_MAX];
    snprintf(other, sizeof other, "%s.link", path);
    assert_int_equal(link(path, other), 0);
}

static void stream_tells_of_a_file_that_changed(void **state)
{
    (void)state;
    static const struct {
        void (*change)(const char *path);
        const char *told; /* NULL: it is no change */
    } changes[] = {{change_a_byte, "was changed"},  {change_nothing_but_write, "was changed"},
                   {change_append, "was changed"},  {change_to_the_same_time, "was changed"},
                   {change_shorten, "was changed"}, {change_replace, "was changed"},
                   {change_remove, "was removed"},  {change_link, NULL}};
    for (size_t i = 0; i < TY_COUNT(changes); i++) {
        struct place p;
        struct nn_model *m;
        struct train_data d;
        struct nn_batch b;
        _Atomic size_t room = 1;
        place_init(&p);
        assert_ok(
            nn_model_parse(&p.arena, "toy.yaml", ty_str_of(small_windows(&p, "")), NULL, 0, &m));
        struct tensor_team *team = tensor_team_new(1);
        assert_ok(train_data_load(m, p.options.train_paths, 1, team, &room, &d));
        usleep(20000); /* a tick of the clock that files are stamped by */
        changes[i].change(p.options.train_paths[0]);
        struct train_feed *f = train_feed_new(m, &d, 16, true, true, 3, 2);
        assert_err(changes[i].told ? TY_ABORTED : TY_OK, train_feed_take(f, 0, &b));
        if (changes[i].told)
            assert_message(ty_format(&p.arena, "%s' %s while it was in use",
                                     p.options.train_paths[0], changes[i].told));
        train_feed_free(f);
        train_data_clear(&d);
        tensor_team_free(team);
        place_clear(&p);
    }
}

/* The bytes that are gone are an error of every reader, not a signal. */
static void files_that_become_shorter_are_told(void **state)
{
    (void)state;
    struct place p;
    struct train_mark mark;
    char bytes[64];
    int fd;
    place_init(&p);
    const char *path = p.options.train_paths[0];
    assert_ok(train_file_open(path, &fd, &mark));
    assert_int_equal(truncate(path, 10), 0);
    assert_ok(train_file_bytes(fd, path, 0, 10, bytes));
    assert_err(TY_ABORTED, train_file_bytes(fd, path, 0, sizeof bytes, bytes));
    assert_message("train.csv' became shorter while it was in use");
    assert_err(TY_ABORTED, train_file_same(fd, path, &mark));
    assert_err(TY_ABORTED, train_file_part(path, &mark, 0, 5, bytes));
    assert_int_equal(mkfifo(ty_format(&p.arena, "%s/fifo", p.dir), 0600), 0);
    assert_err(TY_INVALID_ARGUMENT,
               train_file_open(ty_format(&p.arena, "%s/fifo", p.dir), &fd, &mark));
    assert_message("fifo' is not a regular file");
    close(fd);
    place_clear(&p);
}

/* Lines before a piece are counted only for the message. */
static void pieces_name_the_line_of_the_file(void **state)
{
    (void)state;
    struct place p;
    struct ty_buf b;
    struct train_result r;
    static const struct {
        const char *row, *told;
    } bad[] = {{"1,x,2\n", "train.csv: line 400001, column 2 (x): 'x' is not a number"},
               {"1,nan,2\n", "train.csv: line 400001: 'x' is not finite"}};
    place_init(&p);
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        ty_buf_init(&b, 1 << 24);
        for (int k = 0; k < 400000; k++)
            ty_buf_addf(&b, "%d.5,1,2\n", k % 7);
        ty_buf_addz(&b, bad[i].row);
        assert_ok(ty_file_replace(AT_FDCWD, p.options.train_paths[0], ty_buf_str(&b), 0644));
        ty_buf_clear(&b);
        assert_err(TY_INVALID_ARGUMENT, train_run(&p.options, &r));
        assert_message(bad[i].told);
    }
    place_clear(&p);
}

static const struct CMUnitTest tests[] = {
    TEST("plot/picture_is_drawn", picture_is_drawn),
    TEST("plot/is_written", plot_is_written),
    TEST("run/learns", run_learns),
    TEST("run/threads_do_not_change_a_bit", run_threads_do_not_change_a_bit),
    TEST("resume/is_exact", resume_is_exact),
    TEST("resume/passes_over_a_torn_checkpoint", resume_passes_over_a_torn_checkpoint),
    TEST("resume/refuses_another_run", resume_refuses_another_run),
    TEST("checkpoints/last_and_best_are_kept", checkpoints_last_and_best_are_kept),
    TEST("optimizer/deferred_is_exact", optimizer_deferred_is_exact),
    TEST("data/mistakes_name_file_and_line", data_mistakes_name_file_and_line),
    TEST("data/bad_rows_are_skipped_and_counted", data_bad_rows_are_skipped_and_counted),
    TEST("data/header_finds_columns", data_header_finds_columns),
    TEST("data/records_are_read", data_records_are_read),
    TEST("order/passes_are_permutations", order_passes_are_permutations),
    TEST("order/windows_are_permutations", order_windows_are_permutations),
    TEST("stream/is_the_same_to_the_bit", stream_is_the_same_to_the_bit),
    TEST("stream/has_every_row_once_a_pass", stream_has_every_row_once_a_pass),
    TEST("stream/reads_pieces", stream_reads_pieces),
    TEST("stream/tells_of_a_file_that_changed", stream_tells_of_a_file_that_changed),
    TEST("files/that_become_shorter_are_told", files_that_become_shorter_are_told),
    TEST("pieces/name_the_line_of_the_file", pieces_name_the_line_of_the_file),
};
TEST_MAIN("train", tests)

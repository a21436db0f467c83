/* test_replicas.c -- what replicas with parameter servers do apart must be what one process does:
 * steps in parts, shares of the data. */
#define TY_SEAM
#include "base/test.h"
#include "train/train_int.h"

#include <math.h>

static const char MODEL[] = "name: toy\n"
                            "input: {columns: [{name: y}, {name: x}, {name: id, type: int}]}\n"
                            "features: [{name: c, identity: id, buckets: 50}]\n"
                            "network:\n"
                            "  input: [x, {embedding: c, size: 9}]\n"
                            "  layers: [{dense: 8, name: h, activation: relu, batch_norm: true},\n"
                            "           {dense: 1, name: out}]\n"
                            "head: {type: regression, label: y}\n"
                            "training: {optimizer: {type: %s, learning_rate: 1e-5},\n"
                            "           batch_size: 16, shuffle_window: 64}\n";

enum { ROWS = 301 };

struct place {
    struct ty_arena arena;
    char dir[64];
    struct nn_model *model;
    struct tensor_team *team;
    struct train_data data;
};

/* Some ids are rare: their rows wait for many steps. With little room the rows are streamed. */
static void place_init(struct place *p, const char *optimizer, bool stream)
{
    struct ty_buf b;
    memset(p, 0, sizeof *p);
    snprintf(p->dir, sizeof p->dir, "/tmp/test_replicas.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    ty_buf_init(&b, 1 << 20);
    for (int i = 0; i < ROWS; i++)
        ty_buf_addf(&b, "%d,%.3f,%d\n", i, (double)(i % 13) / 13, i % 50 < 5 ? i % 50 : i % 5);
    const char *path = ty_format(&p->arena, "%s/train.csv", p->dir);
    assert_ok(ty_file_replace(AT_FDCWD, path, ty_buf_str(&b), 0644));
    ty_buf_clear(&b);
    const char *text = ty_format(&p->arena, MODEL, optimizer);
    p->team = tensor_team_new(1);
    assert_ok(nn_model_parse(&p->arena, "toy", ty_str_of(text), NULL, 0, &p->model));
    _Atomic size_t room = stream ? 1 : 1 << 24;
    assert_ok(train_data_load(p->model, &path, 1, p->team, &room, &p->data));
    assert_int_equal(p->data.rows.count, ROWS);
    assert_true((p->data.source != NULL) == stream);
}

static void place_clear(struct place *p)
{
    train_data_clear(&p->data);
    tensor_team_free(p->team);
    assert_ok(ty_remove_tree(AT_FDCWD, p->dir));
    ty_arena_clear(&p->arena);
}

/* What a server does with a worker's gradients: ranges, rows, and rows that wait. */
static void parts_apply(struct train_optimizer *server, const struct nn_param *params, size_t count,
                        float **before)
{
    train_optimizer_begin(server, 1);
    for (size_t i = 0; i < count; i++) {
        const struct nn_param *p = &params[i];
        size_t half = p->count / 2;
        for (size_t k = 0; p->frozen && k < p->count; k++)
            p->grad[k] = p->data[k] - before[i][k];
        if (p->table) {
            train_optimizer_apply_rows(server, i, p->rows, p->row_count / 2, p->grad);
            train_optimizer_apply_rows(server, i, p->rows + p->row_count / 2,
                                       p->row_count - p->row_count / 2,
                                       p->grad + p->row_count / 2 * p->width);
        } else {
            train_optimizer_apply(server, i, 0, half, p->grad);
            train_optimizer_apply(server, i, half, p->count - half, p->grad + half);
        }
    }
}

/* To the bit; frozen ones, which get differences, within rounding. */
static void assert_param(const struct nn_param *a, const struct nn_param *b)
{
    for (size_t i = 0; i < a->count; i++) {
        double x = (double)a->data[i], y = (double)b->data[i];
        double most = a->frozen ? 1e-4 * (1 + fabs(x)) : 0;
        if (!(fabs(x - y) <= most))
            fail_msg("%s[%zu] is %g and %g", a->name.ptr, i, x, y);
    }
}

static void step_in_parts_is_the_step(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        "adam", "sgd, momentum: 0.9", "rmsprop, momentum: 0.5", "rmsprop", "adagrad", "ftrl"};
    for (size_t k = 0; k < TY_COUNT(kinds); k++) {
        struct place p;
        struct nn_net *nets[2];
        struct train_optimizer *o[2];
        struct nn_param *params[2];
        float *before[64];
        place_init(&p, kinds[k], false);
        for (int i = 0; i < 2; i++) {
            assert_ok(nn_net_new(p.model, i ? 1 : 16, i ? 1 : 4, 1, p.team, NULL, &nets[i]));
            o[i] = train_optimizer_new(nets[i], 200);
        }
        size_t count = nn_net_params(nets[0], &params[0]);
        assert_int_equal(nn_net_params(nets[1], &params[1]), count);
        for (size_t i = 0; i < count; i++)
            before[i] = ty_new_array(&p.arena, float, params[0][i].count);
        nn_flush_denormals();
        for (size_t step = 0; step < 200; step++) {
            struct nn_batch b = {.rows = &p.data.rows,
                                 .first = step * 16 % 280,
                                 .count = 16,
                                 .step = step,
                                 .training = true};
            train_optimizer_ready(o[0], &b);
            for (size_t i = 0; i < count; i++)
                memcpy(before[i], params[0][i].data, params[0][i].count * sizeof(float));
            (void)nn_net_forward(nets[0], &b);
            nn_net_backward(nets[0]);
            parts_apply(o[1], params[0], count, before);
            train_optimizer_step(o[0], 1);
            if (step % 50 == 7) /* some rows are read, the others wait on */
                train_optimizer_rows_ready(o[1], 0, (const uint32_t[]){1, 3, 44}, 3);
        }
        train_optimizer_settle(o[0]);
        train_optimizer_settle(o[1]);
        for (size_t i = 0; i < count; i++)
            assert_param(&params[0][i], &params[1][i]);
        for (int i = 0; i < 2; i++) {
            train_optimizer_free(o[i]);
            nn_net_free(nets[i]);
        }
        place_clear(&p);
    }
}

/* Rows are told apart by their labels, 0 to ROWS - 1. In each pass all shares together have every
 * row, and in as many passes as there are shares so has each of them. */
static void shares_have_every_row(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++)
        for (size_t of = 1; of <= 5; of++) {
            struct place p;
            int seen[5][ROWS] = {{0}};
            place_init(&p, "adam", stream);
            for (size_t rank = 0; rank < of; rank++) {
                struct train_feed *f = train_feed_new_share(
                    p.model, &p.data, (struct train_share){rank, of}, 16, true, false, 3, 1);
                size_t batches = train_feed_batches(f);
                int own[ROWS] = {0};
                for (size_t i = 0; i < of * batches; i++) {
                    struct nn_batch b;
                    assert_ok(train_feed_take(f, i, &b));
                    for (size_t k = 0; k < b.count; k++) {
                        int row = (int)b.rows->labels[b.pick ? b.pick[k] : k];
                        seen[i / batches][row]++;
                        own[row]++;
                    }
                }
                for (size_t i = 0; i < ROWS; i++)
                    assert_in_range(own[i], 1, 2);
                train_feed_free(f);
            }
            for (size_t pass = 0; pass < of; pass++) {
                size_t twice = 0;
                for (size_t i = 0; i < ROWS; i++) {
                    assert_in_range(seen[pass][i], 1, 2);
                    twice += seen[pass][i] == 2;
                }
                assert_true(twice < of);
            }
            place_clear(&p);
        }
}

/* Images are sorted by class: a share is every one of so many. */
static void shares_of_images_have_every_one(void **state)
{
    (void)state;
    enum { ALL = 11, OF = 3, EACH = 4 };
    for (uint64_t pass = 0; pass < OF; pass++) {
        int seen[ALL] = {0}, twice = 0;
        for (size_t rank = 0; rank < OF; rank++) {
            struct train_order o;
            uint32_t rows[EACH];
            train_order_init(&o, EACH, EACH, true, 7 + rank);
            o.all = ALL;
            o.rank = rank;
            o.of = o.stride = OF;
            train_order_take(&o, pass * EACH, EACH, rows);
            for (size_t i = 0; i < EACH; i++) {
                assert_in_range(rows[i], 0, ALL - 1);
                assert_true(rows[i] % OF == (rank + pass) % OF || rows[i] == 0);
                seen[rows[i]]++;
            }
            train_order_clear(&o);
        }
        for (size_t i = 0; i < ALL; i++) {
            assert_in_range(seen[i], 1, 2);
            twice += seen[i] == 2;
        }
        assert_int_equal(twice, OF * EACH - ALL);
    }
}

/* It has no data: neither what the data is nor what was measured of it is known there. */
static void a_server_knows_a_run_by_its_number(void **state)
{
    (void)state;
    static const char text[] = "name: toy\n"
                               "input: {columns: [{name: y}, {name: x}, {name: id, type: int}]}\n"
                               "features: [{name: z, normalise: x}]\n"
                               "network: {input: [z], layers: [{dense: 1, name: out}]}\n"
                               "head: {type: regression, label: y}\n"
                               "training: {batch_size: 16}\n";
    struct place p;
    struct nn_model *models[2];
    struct nn_net *nets[2];
    struct train_optimizer *o[2];
    struct metrics metrics;
    struct train_state saved = {.step = 3, .best_loss = INFINITY, .rate_scale = 1}, read = {0};
    place_init(&p, "adam", false);
    const char *path = ty_format(&p.arena, "%s/train.csv", p.dir);
    for (int i = 0; i < 2; i++) {
        assert_ok(nn_model_parse(&p.arena, "toy", ty_str_of(text), NULL, 0, &models[i]));
        if (i == 0)
            assert_ok(train_data_measure(models[i], &path, 1, p.team));
        assert_ok(nn_net_new(models[i], 1, 1, 1, p.team, NULL, &nets[i]));
        o[i] = train_optimizer_new(nets[i], 9);
    }
    metrics_init(&p.arena, &metrics, models[0]);
    struct train_checkpoints chief = {
        .dir = p.dir, .keep = 1, .run = train_identity(models[0], 5, 1)};
    assert_ok(train_checkpoint_save(&chief, nets[0], o[0], &metrics, &saved, NULL));
    struct train_checkpoints server = {
        .dir = p.dir, .keep = 1, .run_sum = train_identity_sum(&chief.run)};
    assert_ok(train_checkpoint_load(&server, nets[1], o[1], &metrics, &read));
    assert_int_equal(read.step, 3);
    server.run_sum++;
    assert_err(TY_FAILED_PRECONDITION,
               train_checkpoint_load(&server, nets[1], o[1], &metrics, &read));
    assert_non_null(strstr(ty_err_message(), "it is of another run"));
    for (int i = 0; i < 2; i++) {
        train_optimizer_free(o[i]);
        nn_net_free(nets[i]);
    }
    place_clear(&p);
}

static const struct CMUnitTest tests[] = {
    TEST("replicas/step_in_parts_is_the_step", step_in_parts_is_the_step),
    TEST("replicas/shares_have_every_row", shares_have_every_row),
    TEST("replicas/shares_of_images_have_every_one", shares_of_images_have_every_one),
    TEST("replicas/a_server_knows_a_run_by_its_number", a_server_knows_a_run_by_its_number),
};
TEST_MAIN("train_replicas", tests)

/* test_report.c -- what a run says of itself: its length, the bar, what it refuses. */
#include "train/test_place.h"

/* ---- lengths and lines ---- */

static void run_says_what_its_length_rounds(void **state)
{
    (void)state;
    static const struct {
        struct nn_training t;
        size_t rows;
        int64_t steps; /* an epoch */
        const char *said;
    } cases[] = {
        {{.batch_size = 16, .epochs = 2}, 33, 3, ""},
        {{.batch_size = 16, .epochs = 6, .steps = 3},
         90,
         1,
         "training.steps asks for 3 steps; 6 epochs of 1 steps are 6\n"},
        {{.batch_size = 16, .epochs = 3, .steps = 10},
         100,
         3,
         "training.steps asks for 10 steps; 3 epochs of 3 steps are 9\n"},
        {{.batch_size = 32, .epochs = 5, .examples = 100},
         20000,
         1,
         "training.examples asks for 3 steps; 5 epochs of 1 steps are 5\n"
         "160 of 20000 rows will be trained on: training.examples of the model file (or its flag) "
         "says so\n"},
        {{.batch_size = 32, .epochs = 5, .examples = 32000}, 20000, 200, ""},
        {{.batch_size = 10, .epochs = 5, .passes = 20}, 1000, 400, ""},
        {{.batch_size = 10, .epochs = 1, .passes = 0.5},
         1000,
         50,
         "500 of 1000 rows will be trained on: training.passes of the model file (or its flag) "
         "says so\n"},
        {{.batch_size = 10, .epochs = 1, .passes = 0.5, .steps = 100}, 1000, 100, ""},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct ty_buf b;
        ty_buf_init(&b, 4096);
        ty_buf_addz(&b, "");
        struct train_length l = train_length(&cases[i].t, cases[i].rows);
        assert_int_equal(l.steps_per_epoch, cases[i].steps);
        train_length_print(&l, cases[i].rows, &b);
        assert_string_equal(b.len ? b.ptr : "", cases[i].said);
        ty_buf_clear(&b);
    }
}

static void bar_is_as_wide_as_the_terminal(void **state)
{
    (void)state;
    struct place p;
    struct nn_model *m;
    struct metrics metrics;
    struct report r;
    place_init(&p);
    assert_ok(nn_model_parse(&p.arena, "toy", TY_STR(MODEL), NULL, 0, &m));
    metrics_init(&p.arena, &metrics, m);
    report_init(&r, true, 10, 1000, 16);
    static const struct {
        size_t columns;
        const char *ends;
    } cases[] = {{200, " - mae: 0.0000"},
                 {97, " - rmse: 0.0000"},
                 {80, " - loss: 0.0000"},
                 {70, "s left"},
                 {30, "5"},
                 {1, ""},
                 {0, ""}};
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct ty_buf b;
        ty_buf_init(&b, 4096);
        report_line(&r, 0, 500, 2, &metrics, cases[i].columns, &b);
        assert_true(b.len == 0 || b.len < cases[i].columns);
        assert_true(cases[i].columns < 2 || b.len > 0);
        assert_true(cases[i].columns == 30 ||
                    ty_str_ends(ty_buf_str(&b), ty_str_of(cases[i].ends)));
        ty_buf_clear(&b);
    }
    report_clear(&r);
    place_clear(&p);
}

static const struct CMUnitTest tests[] = {
    TEST("length/says_what_is_rounded", run_says_what_its_length_rounds),
    TEST("bar/is_as_wide_as_the_terminal", bar_is_as_wide_as_the_terminal),
};
TEST_MAIN("train_report", tests)

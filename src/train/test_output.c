/* test_output.c -- whose the output folder is, and what of it is removed. */
#include "train/test_place.h"

static char *path_of(struct place *p, const char *name)
{
    return ty_format(&p->arena, "%s/%s", p->dir, name);
}

static bool is_there(struct place *p, const char *name)
{
    return access(path_of(p, name), F_OK) == 0;
}

static void put(struct place *p, const char *name)
{
    char *path = path_of(p, name);
    *strrchr(path, '/') = '\0';
    assert_ok(ty_mkdirs(path, 0755));
    write_text(p, name, "mine\n");
}

static void assert_mine(struct place *p, const char *name)
{
    ty_str text;
    assert_ok(ty_file_read(AT_FDCWD, path_of(p, name), 100, &p->arena, &text));
    assert_true(ty_str_is(text, "mine\n"));
}

static void lock_a_second_run_is_told_at_once(void **state)
{
    (void)state;
    struct place p;
    struct train_output o;
    struct train_result r;
    place_init(&p);
    ty_str before = run_weights(&p, "out");
    assert_false(is_there(&p, "out/.trainyard.lock"));
    assert_ok(output_open(&o, &p.arena, p.options.output_dir, "gs://b/out"));
    p.options.train_paths[0] = "/nowhere"; /* told before the data is looked for */
    assert_err(TY_FAILED_PRECONDITION, train_run(&p.options, &r));
    assert_message(ty_format(&p.arena, "out' is in use by process %d on ", (int)getpid()));
    assert_message("(since 20");
    assert_true(is_there(&p, "out/checkpoints/checkpoint"));
    assert_true(is_there(&p, "out/.trainyard.lock"));
    output_close(&o);
    p.options.train_paths[0] = p.options.eval_paths[0];
    assert_same(before, run_weights(&p, NULL));
    place_clear(&p);
}

/* Its process was killed: the file is there, the lock is not. What it says is not believed. */
static void lock_of_a_killed_run_is_free(void **state)
{
    (void)state;
    struct place p;
    struct train_output o;
    place_init(&p);
    put(&p, "out/.trainyard.lock");
    assert_ok(output_open(&o, &p.arena, path_of(&p, "out"), "out"));
    output_close(&o);
    assert_true(is_there(&p, "out"));
    assert_ok(output_open(&o, &p.arena, path_of(&p, "new/out"), "out"));
    output_close(&o);
    assert_false(is_there(&p, "new/out")); /* it was made for nothing */
    place_clear(&p);
}

/* With the folder its lock goes: the run takes it again, unless another one was first, whose lock
 * it leaves alone. */
static void lock_of_a_removed_folder_is_taken_again(void **state)
{
    (void)state;
    struct place p;
    struct train_output o, other;
    place_init(&p);
    const char *out = path_of(&p, "out");
    assert_ok(output_open(&o, &p.arena, out, "out"));
    assert_ok(ty_remove_tree(AT_FDCWD, out));
    assert_ok(output_keep(&o));
    assert_true(is_there(&p, "out/.trainyard.lock"));
    assert_err(TY_FAILED_PRECONDITION, output_open(&other, &p.arena, out, "out"));
    assert_int_equal(rename(out, path_of(&p, "elsewhere")), 0);
    assert_ok(output_open(&other, &p.arena, out, "out"));
    assert_err(TY_FAILED_PRECONDITION, output_keep(&o));
    assert_message("'out' is in use by process ");
    output_close(&o);
    assert_true(is_there(&p, "out/.trainyard.lock"));
    assert_ok(ty_remove_tree(AT_FDCWD, out));
    assert_ok(output_open(&o, &p.arena, out, "out"));
    output_close(&other); /* had not looked */
    assert_true(is_there(&p, "out/.trainyard.lock"));
    output_close(&o);
    place_clear(&p);
}

/* ---- curves ---- */

static ty_err path_note(void *arg, const char *name)
{
    char *file = arg;
    if (name[0] != '.')
        snprintf(file, EVENT_NAME_BYTES, "%s", name);
    return TY_OK;
}

/* The one event file of a folder: its events as letters, and the step of the last. */
static const char *events_of(struct place *p, const char *folder, int64_t *ret_step)
{
    static const char letters[] = {
        [EVENT_OTHER] = '?', [EVENT_VERSION] = 'v', [EVENT_GRAPH] = 'g', [EVENT_SUMMARY] = 's'};
    char file[EVENT_NAME_BYTES] = "";
    struct tfrecord_reader r = {0};
    struct event e = {0};
    struct ty_buf kinds;
    ty_str record;
    assert_ok(output_list(path_of(p, folder), path_note, file));
    assert_ok(ty_file_read(AT_FDCWD, path_of(p, ty_format(&p->arena, "%s/%s", folder, file)),
                           1 << 20, &p->arena, &r.file));
    ty_buf_init(&kinds, 1000);
    while (tfrecord_read(&r, &record) == TY_OK) {
        assert_ok(event_parse(record, &e));
        ty_buf_addc(&kinds, letters[e.kind]);
    }
    const char *text = ty_cstr(&p->arena, ty_buf_str(&kinds));
    ty_buf_clear(&kinds);
    *ret_step = e.step;
    return text;
}

static void curves_go_on_after_their_folder_was_removed(void **state)
{
    (void)state;
    struct place p;
    struct curves c;
    struct nn_model *m;
    struct nn_net *net;
    struct metrics metrics;
    int64_t step;
    place_init(&p);
    struct tensor_team *team = tensor_team_new(1);
    assert_ok(nn_model_parse(&p.arena, "toy", TY_STR(MODEL), NULL, 0, &m));
    assert_ok(nn_net_new(m, 16, 1, 1, team, NULL, &net));
    metrics_init(&p.arena, &metrics, m);
    assert_ok(curves_open(&c, path_of(&p, "out/tensorboard"), true, net));
    assert_ok(curves_epoch(&c, 0, &metrics, &metrics));
    assert_string_equal(events_of(&p, "out/tensorboard/train", &step), "vgssss");
    assert_false(c.told);
    assert_ok(ty_remove_tree(AT_FDCWD, path_of(&p, "out")));
    assert_ok(curves_epoch(&c, 1, &metrics, &metrics));
    assert_string_equal(events_of(&p, "out/tensorboard/train", &step), "vgssss");
    assert_int_equal(step, 1);
    assert_string_equal(events_of(&p, "out/tensorboard/validation", &step), "vssss");
    assert_int_equal(step, 1);
    assert_true(c.told);
    assert_int_equal(rename(path_of(&p, "out"), path_of(&p, "elsewhere")), 0); /* moved: the same */
    assert_ok(curves_epoch(&c, 2, &metrics, &metrics));
    assert_string_equal(events_of(&p, "out/tensorboard/validation", &step), "vssss");
    assert_int_equal(step, 2);
    assert_ok(ty_remove_tree(AT_FDCWD, path_of(&p, "out")));
    write_text(&p, "out", "in its way"); /* cannot be made again: told, and no file is written to */
    assert_err(TY_NOT_FOUND, curves_epoch(&c, 3, &metrics, &metrics));
    assert_message("out/tensorboard': Not a directory");
    curves_close(&c);
    nn_net_free(net);
    tensor_team_free(team);
    place_clear(&p);
}

static void earlier_files_of_the_user_stay(void **state)
{
    (void)state;
    static const char *const mine[] = {"out/checkpoints/my.txt",
                                       "out/checkpoints/ckpt-notes",
                                       "out/checkpoints/ckpt-5.txt",
                                       "out/checkpoints/best.py",
                                       "out/tensorboard/mine/events.out.tfevents.1",
                                       "out/tensorboard/train/notes",
                                       "out/export/mine/saved_model.pb",
                                       "out/export/savedmodel/20200101000000/saved_model.pb",
                                       "out/export/savedmodel/.making-mine/x"};
    struct place p;
    struct train_result first, second;
    place_init(&p);
    for (size_t i = 0; i < TY_COUNT(mine); i++)
        put(&p, mine[i]);
    put(&p, "out/export/savedmodel/.making-20200101000000/saved_model.pb"); /* of a killed run */
    put(&p, "out/tensorboard/train/events.out.tfevents.1");
    out_dir(&p, "out");
    assert_ok(train_run(&p.options, &first));
    const char *note = ty_format(&p.arena, "%s/note", first.export_dir + strlen(p.dir) + 1);
    put(&p, note);
    set(&p, "examples", "480");
    assert_ok(train_run(&p.options, &second));
    for (size_t i = 0; i < TY_COUNT(mine); i++)
        assert_mine(&p, mine[i]);
    assert_mine(&p, note);
    assert_int_equal(access(ty_format(&p.arena, "%s/saved_model.pb", first.export_dir), F_OK), -1);
    assert_int_equal(access(ty_format(&p.arena, "%s/variables", first.export_dir), F_OK), -1);
    assert_int_equal(access(ty_format(&p.arena, "%s/saved_model.pb", second.export_dir), F_OK), 0);
    assert_true(is_there(&p, "out/checkpoints/ckpt-30.index"));
    assert_false(is_there(&p, "out/checkpoints/ckpt-60.index"));
    assert_false(is_there(&p, "out/checkpoints/ckpt-60.data-00000-of-00001"));
    assert_false(is_there(&p, "out/checkpoints/checkpoint.before"));
    assert_false(is_there(&p, "out/tensorboard/train/events.out.tfevents.1"));
    assert_false(is_there(&p, "out/export/savedmodel/.making-20200101000000"));
    place_clear(&p);
}

/* A loss that is not finite does not cost the model that was there. */
static void earlier_model_outlives_a_run_that_fails(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    place_init(&p);
    ty_str whole = run_weights(&p, "out");
    write_text(&p, "bad.csv", "1e38,1,0\n-1e38,1,0\n");
    p.options.train_paths[0] = path_of(&p, "bad.csv");
    assert_err(TY_INVALID_ARGUMENT, train_run(&p.options, &r));
    assert_message("is not finite");
    p.options.train_paths[0] = p.options.eval_paths[0];
    assert_true(is_there(&p, "out/checkpoints/checkpoint"));
    assert_true(is_there(&p, "out/checkpoints/ckpt-60.index"));
    p.options.resume = true;
    assert_same(whole, run_weights(&p, NULL)); /* goes on from it: there is nothing left to do */
    place_clear(&p);
}

/* A run that begins anew and is killed before its first checkpoint does not go on from another's,
 * and what the other left is still there. */
static void earlier_checkpoints_are_set_aside(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    place_init(&p);
    out_dir(&p, "out");
    assert_ok(train_run(&p.options, &r));
    struct train_checkpoints c = {.dir = path_of(&p, "out/checkpoints")};
    assert_ok(train_checkpoints_set_aside(&c)); /* and then it was killed */
    p.options.resume = true;
    p.options.seed = 8;
    p.options.stop_at_step = 3;
    assert_err(TY_CANCELLED, train_run(&p.options, &r)); /* not refused: it begins */
    assert_true(is_there(&p, "out/checkpoints/ckpt-3.index"));
    assert_false(is_there(&p, "out/checkpoints/ckpt-60.index"));
    assert_false(is_there(&p, "out/checkpoints/checkpoint.before"));
    place_clear(&p);
}

static void earlier_export_stays_without_a_new_one(void **state)
{
    (void)state;
    struct place p;
    struct train_result first, r;
    place_init(&p);
    out_dir(&p, "out");
    assert_ok(train_run(&p.options, &first));
    p.options.no_export = true;
    assert_ok(train_run(&p.options, &r));
    assert_int_equal(access(ty_format(&p.arena, "%s/saved_model.pb", first.export_dir), F_OK), 0);
    place_clear(&p);
}

/* As user nobody, for root may write everywhere. */
static void folder_of_another_user_is_told_with_its_path(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    if (geteuid() != 0)
        skip();
    place_init(&p);
    out_dir(&p, "out");
    assert_ok(ty_mkdirs(path_of(&p, "out/checkpoints"), 0755));
    put(&p, "out/checkpoints/ckpt-3.index");
    assert_int_equal(chmod(p.dir, 0755), 0);
    assert_int_equal(chmod(path_of(&p, "out"), 0777), 0);
    assert_int_equal(seteuid(65534), 0);
    ty_err err = train_run(&p.options, &r);
    char *message = ty_err_take();
    ty_err removed = ty_remove_tree(AT_FDCWD, path_of(&p, "out/checkpoints"));
    assert_int_equal(seteuid(0), 0);
    assert_err(TY_PERMISSION_DENIED, removed);
    assert_message("out/checkpoints': cannot remove 'ckpt-3.index': Permission denied");
    assert_int_equal(err, TY_PERMISSION_DENIED);
    assert_non_null(strstr(message, "out/checkpoints': Permission denied"));
    free(message);
    place_clear(&p);
}

/* ---- the best epoch ---- */

/* Runs of 1, 2, 3, ... epochs of 20 steps are the begin of one of more, whose best is one of
 * theirs. */
static void best_weights_are_exported(void **state)
{
    (void)state;
    enum { EPOCHS = 5 };
    struct place p;
    ty_str weights[EPOCHS];
    size_t best = 0;
    double least = 0;
    place_init(&p);
    set(&p, "lr", "0.7");
    size_t settings = p.options.setting_count;
    for (size_t i = 0; i < EPOCHS; i++) {
        struct train_result r;
        p.options.setting_count = settings;
        set(&p, "epochs", ty_format(&p.arena, "%zu", i + 1));
        set(&p, "examples", ty_format(&p.arena, "%zu", 320 * (i + 1)));
        out_dir(&p, ty_format(&p.arena, "out%zu", i));
        assert_ok(train_run(&p.options, &r));
        weights[i] = run_weights(&p, NULL);
        if (i == 0 || r.val_loss < least) {
            least = r.val_loss;
            best = i;
        }
    }
    assert_true(best < EPOCHS - 1); /* else this test shows nothing */
    p.options.model_text = ty_format(&p.arena, "%.*s, keep_best: true, keep_checkpoints: 1}\n",
                                     (int)(sizeof MODEL - 3), MODEL);
    assert_same(weights[best], run_weights(&p, "best"));
    p.options.resume = true; /* of the run that is over: again the best */
    assert_same(weights[best], run_weights(&p, NULL));
    p.options.resume = false;
    p.options.model_text = ty_format(&p.arena, "%.*s, keep_best: true, keep_checkpoints: 0}\n",
                                     (int)(sizeof MODEL - 3), MODEL);
    assert_same(weights[best], run_weights(&p, "only"));
    assert_true(is_there(&p, "only/checkpoints/best.index"));
    assert_false(is_there(&p, "only/checkpoints/checkpoint"));
    place_clear(&p);
}

static const struct CMUnitTest tests[] = {
    TEST("lock/a_second_run_is_told_at_once", lock_a_second_run_is_told_at_once),
    TEST("lock/of_a_killed_run_is_free", lock_of_a_killed_run_is_free),
    TEST("lock/of_a_removed_folder_is_taken_again", lock_of_a_removed_folder_is_taken_again),
    TEST("curves/go_on_after_their_folder_was_removed",
         curves_go_on_after_their_folder_was_removed),
    TEST("earlier/files_of_the_user_stay", earlier_files_of_the_user_stay),
    TEST("earlier/model_outlives_a_run_that_fails", earlier_model_outlives_a_run_that_fails),
    TEST("earlier/checkpoints_are_set_aside", earlier_checkpoints_are_set_aside),
    TEST("earlier/export_stays_without_a_new_one", earlier_export_stays_without_a_new_one),
    TEST("folder/of_another_user_is_told_with_its_path",
         folder_of_another_user_is_told_with_its_path),
    TEST("best/weights_are_exported", best_weights_are_exported),
};
TEST_MAIN("train_output", tests)

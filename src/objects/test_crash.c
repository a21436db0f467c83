/* test_crash.c -- a process that ends at every step of every write, and disks that fail there.
 *
 * The child says what it was told on a pipe: each acknowledged write. The parent opens the folder
 * again and holds it against that (J6): what was acknowledged is whole, what was not is whole as it
 * was before or as it would have been, nothing is left in staging/, every file has its row. */
#include "objects/test_objects.h"

enum { BIG = 300000 };

static char big_old[BIG + 1], big_new[BIG + 1];

static void fill(void)
{
    memset(big_old, 'o', BIG);
    memset(big_new, 'n', BIG);
}

/* ---- scenarios: each is one write, made after `prepare` ---- */

static ty_err edit_keep(struct ty_arena *a, struct bucket *b, void *arg)
{
    (void)a;
    b->versioning = *(const char *)arg == 'v';
    b->soft_delete_s = *(const char *)arg == 's' ? 1000 : 0;
    return TY_OK;
}

static void bucket_keep(struct fixture *f, const char *how)
{
    struct bucket b;
    assert_ok(objects_bucket_patch(f->o, &f->a, BUCKET, NULL, edit_keep, (void *)how, &b));
}

static void prepare_nothing(struct fixture *f)
{
    (void)f;
}

static void prepare_old(struct fixture *f)
{
    put(f, "d/x", big_old);
}

static void prepare_versions(struct fixture *f)
{
    bucket_keep(f, "v");
    put(f, "d/x", big_old);
}

static void prepare_soft(struct fixture *f)
{
    bucket_keep(f, "s");
    put(f, "d/x", big_old);
}

static void prepare_parts(struct fixture *f)
{
    big_new[BIG / 2] = '\0';
    put(f, "p", big_new);
    big_new[BIG / 2] = 'n';
    put(f, "d/x", big_old);
}

static void prepare_in_the_way(struct fixture *f)
{
    put(f, "d", "in the way");
}

static void prepare_source(struct fixture *f)
{
    put(f, "d/x", big_old);
    put(f, "from/here", big_new);
}

static ty_err do_put(struct fixture *f)
{
    struct object made;
    return try_put(f, "d/x", ty_str_of(big_new), NULL, &made);
}

static ty_err do_compose(struct fixture *f)
{
    struct object made;
    struct object_part parts[] = {{.name = TY_STR("p")}, {.name = TY_STR("p")}};
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("d/x")};
    return objects_compose(f->o, &f->a, &target, parts, 2, NULL, &made);
}

static ty_err do_copy(struct fixture *f)
{
    struct object made;
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("d/x")};
    return objects_copy(f->o, &f->a, ref_of("from/here"), NULL, &target, &made);
}

static ty_err do_move(struct fixture *f)
{
    struct object made;
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("d/x")};
    return objects_move(f->o, &f->a, ref_of("from/here"), NULL, &target, &made);
}

static ty_err do_delete(struct fixture *f)
{
    return objects_delete(f->o, ref_of("d/x"), NULL);
}

static ty_err do_session(struct fixture *f)
{
    char id[OBJECTS_SESSION_BYTES];
    struct objects_upload *u;
    struct object made;
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("d/x")};
    ty_err err = objects_session_create(f->o, &target, BIG, NULL, NULL, id);
    for (int64_t at = 0; at < BIG && err == TY_OK;) {
        err = objects_session_resume(f->o, ty_str_of(id), at, BIG, &u);
        if (err != TY_OK)
            return err;
        err = objects_upload_write(u, big_new + at, BIG / 3);
        if (err == TY_OK && at + BIG / 3 < BIG)
            err = objects_upload_pause(u, &at);
        else if (err == TY_OK) {
            err = objects_upload_finish(u, &f->a, &made);
            at = BIG;
        }
        objects_upload_free(u);
    }
    return err;
}

struct scenario {
    const char *name;
    void (*prepare)(struct fixture *f);
    ty_err (*act)(struct fixture *f);
    const char *before, *after; /* of d/x; NULL: none */
};

static const struct scenario scenarios[] = {
    {"upload", prepare_nothing, do_put, NULL, big_new},
    {"overwrite", prepare_old, do_put, big_old, big_new},
    {"overwrite, versions", prepare_versions, do_put, big_old, big_new},
    {"overwrite, soft delete", prepare_soft, do_put, big_old, big_new},
    {"upload below a file", prepare_in_the_way, do_put, NULL, big_new},
    {"compose", prepare_parts, do_compose, big_old, big_new},
    {"copy", prepare_source, do_copy, big_old, big_new},
    {"move", prepare_source, do_move, big_old, big_new},
    {"delete", prepare_old, do_delete, big_old, NULL},
    {"delete, versions", prepare_versions, do_delete, big_old, NULL},
    {"delete, soft delete", prepare_soft, do_delete, big_old, NULL},
    {"session", prepare_old, do_session, big_old, big_new},
};

/* ---- what must hold afterwards ---- */

static bool holds(struct fixture *f, const char *name, const char *text)
{
    struct object object;
    ty_str bytes = {"", 0};
    ty_err err = try_read(f, ref_of(name), &object, &bytes);
    if (err != TY_OK && err != TY_NOT_FOUND)
        fail_msg("%s: %s", name, ty_err_message());
    return text ? err == TY_OK && ty_str_is(bytes, text) : err == TY_NOT_FOUND;
}

static const char *where = ""; /* for messages */

static void check_after(struct fixture *f, const struct scenario *s, bool acknowledged)
{
    bool done = holds(f, "d/x", s->after);
    if (!done && (acknowledged || !holds(f, "d/x", s->before)))
        fail_msg("%s: torn, or lost", where);
    if (s->prepare == prepare_in_the_way)
        assert_true(holds(f, "d", "in the way"));
    if (s->act == do_move) /* never both, never neither */
        assert_true(holds(f, "from/here", done ? NULL : big_new));
    if (s->prepare == prepare_parts)
        assert_int_equal(read_all(f, ref_of("p")).len, BIG / 2);
    /* Every old generation can be read. */
    struct object_page page;
    for (int soft = 0; soft < 2; soft++) {
        struct object_query query = {.bucket = BUCKET, .versions = !soft, .soft_deleted = soft};
        assert_ok(objects_list(f->o, &f->a, &query, &page));
        for (size_t i = 0; i < page.item_count; i++) {
            struct object_ref ref = {.bucket = BUCKET,
                                     .name = page.items[i].name,
                                     .generation = page.items[i].generation,
                                     .soft_deleted = soft};
            assert_int_equal(read_all(f, ref).len, page.items[i].size);
        }
    }
    if (done && s->before && s->prepare != prepare_old && s->prepare != prepare_parts &&
        s->prepare != prepare_source)
        assert_int_equal(ask(f, "SELECT count(*) FROM old"), 1);
}

/* Files and rows are the same set. */
static void check_strays(struct fixture *f)
{
    assert_int_equal(ask(f, "SELECT count(*) FROM removal"), 0);
    assert_int_equal(ask(f, "SELECT count(*) FROM object WHERE stage <> ''"), 0);
    assert_int_equal(ask(f, "SELECT count(*) FROM old WHERE stage <> ''"), 0);
    assert_true(disk_count(f, "staging") <= ask(f, "SELECT count(*) FROM session WHERE done = 0"));
    assert_int_equal(disk_count(f, "buckets"),
                     ask(f, "SELECT count(*) FROM object WHERE place = 0"));
    assert_int_equal(disk_count(f, "odd"),
                     ask(f,
                         "SELECT (SELECT count(*) FROM object WHERE place = 1) + (SELECT count(*) "
                         "FROM old WHERE place = 1)"));
}

static void arm(const char *variable, const char *kind, int n)
{
    char value[64];
    snprintf(value, sizeof value, "%s%d", kind, n);
    setenv(variable, value, 1);
    ty_seam_role("server");
}

static void disarm(void)
{
    unsetenv("TY_CRASH");
    unsetenv("TY_FAULT");
    ty_seam_role("server");
}

/* In a child that ends at step n of the act (or of a start after it). True: it got to the end. */
static bool survive(const struct scenario *s, int n)
{
    struct fixture f;
    fixture_open(&f);
    s->prepare(&f);
    objects_close(f.o);
    f.o = NULL;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        ty_log_level_set(TY_LOG_ERROR);
        if (objects_open(f.dir, &f.o) != TY_OK)
            _exit(2);
        arm("TY_CRASH", "server:", n);
        ty_err err = s->act(&f);
        if (err == TY_OK && write(fds[1], "a", 1) != 1)
            _exit(3);
        if (err == TY_OK && settle(f.o) != TY_OK)
            _exit(4);
        _exit(err == TY_OK ? 0 : 1);
    }
    close(fds[1]);
    int status;
    char said = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    bool acknowledged = read(fds[0], &said, 1) == 1;
    close(fds[0]);
    bool finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!finished && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        fail_msg("%s, step %d: status %d", s->name, n, status);
    assert_ok(objects_open(f.dir, &f.o));
    check_after(&f, s, acknowledged);
    fixture_reopen(&f);
    check_strays(&f);
    check_after(&f, s, acknowledged);
    fixture_close(&f);
    return finished;
}

static void crash_at_every_step(void **state)
{
    (void)state;
    ty_log_level_set(TY_LOG_ERROR);
    for (size_t i = 0; i < TY_COUNT(scenarios); i++) {
        int n = 1;
        while (!survive(&scenarios[i], n))
            assert_in_range(++n, 2, 200);
        assert_in_range(n, 4, 200); /* it has steps */
    }
}

/* A start that itself ends at every step, over what a crash just after the commit has left. */
static void crash_at_every_step_of_recovery(void **state)
{
    (void)state;
    ty_log_level_set(TY_LOG_ERROR);
    for (size_t i = 0; i < TY_COUNT(scenarios); i++) {
        bool finished = false;
        for (int n = 1; !finished; n++) {
            struct fixture f;
            fixture_open(&f);
            scenarios[i].prepare(&f);
            objects_close(f.o);
            f.o = NULL;
            pid_t pid = fork();
            if (pid == 0) { /* every rename and unlink fails: all is left to the next start */
                ty_log_level_set(TY_LOG_ERROR + 1);
                if (objects_open(f.dir, &f.o) != TY_OK)
                    _exit(2);
                setenv("TY_FAULT", scenarios[i].act == do_move ? "rename:2+" : "rename:1+", 1);
                ty_seam_role("server");
                _exit(scenarios[i].act(&f) == TY_OK ? 0 : 1);
            }
            int status;
            assert_int_equal(waitpid(pid, &status, 0), pid);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            pid = fork();
            if (pid == 0) {
                arm("TY_CRASH", "server:", n);
                _exit(objects_open(f.dir, &f.o) == TY_OK ? 0 : 1);
            }
            assert_int_equal(waitpid(pid, &status, 0), pid);
            finished = WIFEXITED(status);
            assert_ok(objects_open(f.dir, &f.o));
            check_after(&f, &scenarios[i], true);
            check_strays(&f);
            fixture_close(&f);
            assert_true(n < 100);
        }
    }
}

/* Every write, sync, rename and commit fails in turn: the call says so, or it is done. */
static void fault_at_every_step(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        "write:", "enospc-write:", "sync:", "rename:", "commit:", "enospc-commit:"};
    ty_log_level_set(TY_LOG_ERROR);
    for (size_t i = 0; i < TY_COUNT(scenarios); i++)
        for (size_t k = 0; k < TY_COUNT(kinds); k++) {
            bool failed = true;
            int least =
                strstr(kinds[k], "rename") ? 8 : 2; /* those are made good after the commit */
            for (int n = 1; failed || n <= least; n++) {
                struct fixture f;
                fixture_open(&f);
                scenarios[i].prepare(&f);
                arm("TY_FAULT", kinds[k], n);
                ty_err err = scenarios[i].act(&f);
                failed = err != TY_OK;
                disarm();
                where = ty_format(&f.a, "%s, %s%d: %s", scenarios[i].name, kinds[k], n,
                                  err ? ty_err_message() : "done");
                assert_true(err == TY_OK || err == TY_RESOURCE_EXHAUSTED || err == TY_INTERNAL ||
                            err == TY_UNKNOWN);
                check_after(&f, &scenarios[i], err == TY_OK);
                fixture_reopen(&f);
                check_after(&f, &scenarios[i], err == TY_OK);
                check_strays(&f);
                fixture_close(&f);
                assert_true(n < 60);
            }
        }
}

static const struct CMUnitTest tests[] = {
    TEST("crash/at_every_step", crash_at_every_step),
    TEST("crash/at_every_step_of_recovery", crash_at_every_step_of_recovery),
    TEST("fault/at_every_step", fault_at_every_step),
};

int main(int argc, char **argv)
{
    fill();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("objects_crash", tests, NULL, NULL) == 0 ? 0 : 1;
}

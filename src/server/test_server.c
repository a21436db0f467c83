/* test_server.c -- what `serve` refuses before it answers anybody. A server that starts is the
 * business of tests/clients, where real clients talk to it. */
#define TY_SEAM
#include "base/test.h"
#include "server/server.h"

struct folder {
    char dir[64];
    struct ty_arena arena;
};

static void folder_open(struct folder *f)
{
    *f = (struct folder){.dir = "/tmp/test_server.XXXXXX"};
    assert_non_null(mkdtemp(f->dir));
    ty_log_level_set(TY_LOG_ERROR);
}

static void folder_close(struct folder *f)
{
    assert_ok(ty_remove_tree(AT_FDCWD, f->dir));
    ty_arena_clear(&f->arena);
}

static void folder_write(struct folder *f, const char *name, const char *text)
{
    assert_ok(ty_file_replace(AT_FDCWD, ty_format(&f->arena, "%s/%s", f->dir, name),
                              ty_str_of(text), 0600));
}

/* It must end by itself, with this code and these words. */
static void refused(struct folder *f, const char *listen, ty_err code, const char *words)
{
    struct server_options o = {.data_dir = f->dir, .listen = listen};
    assert_err(code, server_run(&o));
    if (!strstr(ty_err_message(), words))
        fail_msg("'%s' is not in: %s", words, ty_err_message());
}

static void folder_newer_format_is_refused(void **state)
{
    (void)state;
    struct folder f;
    folder_open(&f);
    folder_write(&f, "format", "2\n");
    refused(&f, "127.0.0.1:0", TY_FAILED_PRECONDITION, "has format 2; this program knows format 1");
    folder_write(&f, "format", "new\n");
    refused(&f, "127.0.0.1:0", TY_INVALID_ARGUMENT, "format");
    folder_close(&f);
}

static void folder_others_may_not_write_to_it(void **state)
{
    (void)state;
    struct folder f;
    folder_open(&f);
    assert_int_equal(chmod(f.dir, 0770), 0);
    refused(&f, "127.0.0.1:0", TY_PERMISSION_DENIED, "chmod 700");
    folder_close(&f);
}

static void folder_a_second_server_names_the_first(void **state)
{
    (void)state;
    struct folder f;
    folder_open(&f);
    folder_write(&f, "server.lock", "");
    folder_write(&f, "url", "http://127.0.0.1:7000\n");
    int fd = open(ty_format(&f.arena, "%s/server.lock", f.dir), O_RDWR | O_CLOEXEC);
    assert_ok(ty_lock_take(fd, "server.lock"));
    assert_ok(ty_lock_sign(fd, "server.lock"));
    refused(&f, "127.0.0.1:0", TY_FAILED_PRECONDITION,
            ty_format(&f.arena, "another server already serves '%s': process %d on ", f.dir,
                      (int)getpid()));
    refused(&f, "127.0.0.1:0", TY_FAILED_PRECONDITION, "), at http://127.0.0.1:7000");
    close(fd);
    folder_close(&f);
}

static void settings_name_the_line(void **state)
{
    (void)state;
    struct folder f;
    folder_open(&f);
    folder_write(&f, "trainyard.conf", "grace_ms = 5\nreplica_slot = 2\n");
    refused(&f, "127.0.0.1:0", TY_INVALID_ARGUMENT,
            "trainyard.conf:2: no setting is called 'replica_slot'");
    folder_write(&f, "trainyard.conf", "port_first = 30000\nport_last = 30000\n");
    refused(&f, "127.0.0.1:0", TY_INVALID_ARGUMENT, "port_first must be below port_last");
    folder_close(&f);
}

static void listen_on_loopback_only(void **state)
{
    (void)state;
    struct folder f;
    folder_open(&f);
    refused(&f, "0.0.0.0:0", TY_INVALID_ARGUMENT, "0.0.0.0");
    folder_close(&f);
}

static const struct CMUnitTest tests[] = {
    TEST("folder/newer_format_is_refused", folder_newer_format_is_refused),
    TEST("folder/others_may_not_write_to_it", folder_others_may_not_write_to_it),
    TEST("folder/a_second_server_names_the_first", folder_a_second_server_names_the_first),
    TEST("settings/name_the_line", settings_name_the_line),
    TEST("listen/on_loopback_only", listen_on_loopback_only),
};
TEST_MAIN("server", tests)

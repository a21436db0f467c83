/* backup.c -- `trainyard backup` and `trainyard restore`: work on the data folder itself, with or
 * without a server (backup.h). On a terminal a bar with the rate, otherwise a line at the end. */
#include "cli/cli_int.h"

#include "backup/backup.h"

enum { BAR_MS = 100, BAR_CELLS = 24 };

struct meter {
    const char *verb;
    bool terminal;
    bool drawn;
    int64_t begin_ms, told_ms;
};

static const char *size_text(char out[32], double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 1000 && unit + 1 < TY_COUNT(units); unit++)
        bytes /= 1000;
    snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

static double rate(const struct meter *m, int64_t bytes)
{
    int64_t ms = ty_boot_ms() - m->begin_ms;
    return ms > 0 ? (double)bytes * 1000 / (double)ms : 0;
}

static void meter_clear(struct meter *m)
{
    if (m->drawn)
        fputs("\r\033[K", stderr);
    m->drawn = false;
}

static void meter_tell(void *arg, const struct backup_progress *p)
{
    struct meter *m = arg;
    char size[32], speed[32], bar[BAR_CELLS + 1];
    int64_t now = ty_boot_ms();
    if (!m->terminal || now - m->told_ms < BAR_MS)
        return;
    m->told_ms = now;
    double part = p->total > 0 ? (double)p->done / (double)p->total : 0;
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = (double)i < part * BAR_CELLS ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    fprintf(stderr, "\r\033[K%s [%s] %3.0f %%  %s  %s/s", m->verb, bar, part * 100,
            size_text(size, (double)p->bytes), size_text(speed, rate(m, p->bytes)));
    m->drawn = true;
}

static void meter_warn(void *arg, const char *text)
{
    struct meter *m = arg;
    struct ty_arena a = {0};
    meter_clear(m);
    fprintf(stderr, "WARNING: %s\n", cli_text_for(&a, STDERR_FILENO, text));
    ty_arena_clear(&a);
}

static struct meter meter_begin(const char *verb)
{
    ty_seam_role("client");
    return (struct meter){
        .verb = verb, .terminal = isatty(STDERR_FILENO) != 0, .begin_ms = ty_boot_ms()};
}

/* NULL, and a message: none was given. */
static const char *file_given(struct cli *c)
{
    if (c->args.positional.len > 0)
        return ty_cstr(c->arena, c->args.positional);
    ty_fail(TY_INVALID_ARGUMENT, "argument FILE: Must be specified.");
    return NULL;
}

int cli_backup(struct cli *c)
{
    const char *file = file_given(c);
    struct backup_result r;
    char size[32], speed[32];
    if (!file)
        return cli_fail_usage(c);
    struct meter m = meter_begin("backup");
    struct backup_watch watch = {.tell = meter_tell, .warn = meter_warn, .arg = &m};
    ty_err err = backup_take(cli_data_dir(c), file, &watch, &r);
    meter_clear(&m);
    if (err != TY_OK)
        return cli_fail(c, err);
    fprintf(stderr, "Backed up %" PRId64 " jobs, %" PRId64 " files: %s (%s/s)%s%s.\n", r.jobs,
            r.files, size_text(size, (double)r.bytes), size_text(speed, rate(&m, r.bytes)),
            strcmp(file, "-") == 0 ? "" : " in ", strcmp(file, "-") == 0 ? "" : file);
    return CLI_OK;
}

int cli_restore(struct cli *c)
{
    const char *file = file_given(c);
    struct backup_result r;
    struct ty_buf quoted;
    if (!file)
        return cli_fail_usage(c);
    struct meter m = meter_begin("restore");
    struct backup_watch watch = {.tell = meter_tell, .warn = meter_warn, .arg = &m};
    const char *data_dir = cli_data_dir(c);
    ty_err err = backup_restore(file, data_dir, &watch, &r);
    meter_clear(&m);
    if (err != TY_OK)
        return cli_fail(c, err);
    ty_buf_init(&quoted, 16384);
    cli_shell_quote(&quoted, data_dir);
    fprintf(stderr,
            "Restored %" PRId64 " jobs, %" PRId64 " files into %s. %" PRId64
            " ran at the time and will be tried again.\nServe it: %s serve --data %s\n",
            r.jobs, r.files, data_dir, r.again, c->program, quoted.ptr);
    ty_buf_clear(&quoted);
    return CLI_OK;
}

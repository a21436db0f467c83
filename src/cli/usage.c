/* usage.c -- trainyard usage: what each replica uses or used, and a small plot of it over time. */
#include "cli/cli_int.h"

#include "wire/wire.h"

enum {
    CALL_MS = 60000,
    TEXT_BYTES = 8 << 20,
    COLUMNS = 7,
    PLOT_WIDTH = 60,
    PLOT_LEVELS = 8,
    SHOWN_PLOTS = 16,
    SHOWN_ROWS = 200,
};

/* The members of a sample. */
enum { AT_TIME_MS, AT_CPU_US, AT_MEMORY, AT_READ, AT_WRITTEN };

static double number(const json_t *value, const char *key)
{
    return json_number_value(json_object_get(value, key));
}

static double sample_at(const json_t *samples, size_t i, int which)
{
    return json_number_value(json_array_get(json_array_get(samples, i), (size_t)which));
}

/* "1.2 GB", 1024s. */
static const char *bytes_text(struct ty_arena *a, double value)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < TY_COUNT(units); unit++)
        value /= 1024;
    return ty_format(a, "%.*f %s", unit == 0 || value >= 100 ? 0 : 1, value, units[unit]);
}

/* CPUs in use between two samples; a restarted replica counts from 0 again. */
static double cpus_between(const json_t *samples, size_t i)
{
    double time_ms = sample_at(samples, i, AT_TIME_MS) - sample_at(samples, i - 1, AT_TIME_MS);
    double cpu_us = sample_at(samples, i, AT_CPU_US) - sample_at(samples, i - 1, AT_CPU_US);
    return time_ms > 0 && cpu_us > 0 ? cpu_us / 1000 / time_ms : 0;
}

/* ---- the plot ---- */

/* One character for each of `count` values, the largest of those that fall together. */
static double add_plot(struct ty_buf *b, const double *values, size_t count)
{
    static const char *const bars[PLOT_LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    size_t width = count < PLOT_WIDTH ? count : PLOT_WIDTH;
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    for (size_t x = 0; x < width; x++) {
        double top = 0;
        for (size_t i = x * count / width; i < (x + 1) * count / width; i++)
            top = values[i] > top ? values[i] : top;
        size_t level = most > 0 ? (size_t)(top / most * (PLOT_LEVELS - 1) + 0.5) : 0;
        ty_buf_addz(b, bars[level]);
    }
    return most;
}

static void add_plots(struct ty_arena *a, struct ty_buf *b, const json_t *replica)
{
    const json_t *samples = json_object_get(replica, "samples");
    size_t count = json_array_size(samples);
    if (count < 2)
        return;
    double *values = ty_new_array(a, double, count);
    for (size_t i = 1; i < count; i++)
        values[i - 1] = cpus_between(samples, i);
    ty_buf_addf(
        b, "\n" TY_STR_FMT ", %.0f s\n  CPU    ", TY_STR_ARG(wire_json_get_str(replica, "replica")),
        (sample_at(samples, count - 1, AT_TIME_MS) - sample_at(samples, 0, AT_TIME_MS)) / 1000);
    double most = add_plot(b, values, count - 1);
    ty_buf_addf(b, "  up to %.2f CPUs\n  memory ", most);
    for (size_t i = 0; i < count; i++)
        values[i] = sample_at(samples, i, AT_MEMORY);
    most = add_plot(b, values, count);
    ty_buf_addf(b, "  up to %s\n", bytes_text(a, most));
}

/* ---- tables ---- */

/* "; limit 16.0 GB enforced", of an attempt or a replica. */
static const char *limit_text(struct ty_arena *a, const json_t *of)
{
    double limit = number(of, "memoryLimitBytes");
    if (limit == 0)
        return "";
    return ty_format(a, "; limit %s %s", bytes_text(a, limit),
                     json_is_true(json_object_get(of, "memoryLimitEnforced")) ? "enforced"
                                                                              : "not enforced");
}

/* What it uses just now, or how it was measured when it has ended. */
static const char *now_text(struct ty_arena *a, const json_t *attempt, const json_t *replica)
{
    const json_t *samples = json_object_get(replica, "samples");
    size_t count = json_array_size(samples);
    ty_str method = wire_json_get_str(replica, "method");
    if (!json_is_true(json_object_get(replica, "ended")) && count > 0)
        return ty_format(a, "now %.2f CPUs, %s%s", count > 1 ? cpus_between(samples, count - 1) : 0,
                         bytes_text(a, sample_at(samples, count - 1, AT_MEMORY)),
                         limit_text(a, attempt));
    if (method.len == 0)
        return "by its samples: no receipt, its supervisor was killed";
    return ty_format(a, TY_STR_FMT "%s", TY_STR_ARG(method), limit_text(a, replica));
}

static void add_table(struct ty_arena *a, struct ty_buf *b, const json_t *attempt)
{
    static const char *const head[COLUMNS] = {
        "REPLICA", "CPU_SECONDS", "PEAK_MEMORY", "WALL_SECONDS", "READ", "WRITTEN", "MEASURED"};
    const json_t *replicas = json_object_get(attempt, "replicas");
    size_t count = json_array_size(replicas), shown = count < SHOWN_ROWS ? count : SHOWN_ROWS;
    ty_str *cells = ty_new_array(a, ty_str, (shown + 1) * COLUMNS);
    for (size_t k = 0; k < COLUMNS; k++)
        cells[k] = ty_str_of(head[k]);
    for (size_t i = 0; i < shown; i++) {
        const json_t *r = json_array_get(replicas, i);
        ty_str *row = cells + (i + 1) * COLUMNS;
        row[0] = wire_json_get_str(r, "replica");
        row[1] = ty_str_of(ty_format(a, "%.1f", number(r, "cpuSeconds")));
        row[2] = ty_str_of(bytes_text(a, number(r, "peakMemoryBytes")));
        row[3] = ty_str_of(ty_format(a, "%.1f", number(r, "wallSeconds")));
        row[4] = ty_str_of(bytes_text(a, number(r, "readBytes")));
        row[5] = ty_str_of(bytes_text(a, number(r, "writtenBytes")));
        row[6] = ty_str_of(now_text(a, attempt, r));
    }
    cli_table_add(a, b, cells, shown + 1, COLUMNS);
    if (shown < count)
        ty_buf_addf(b, "... and %zu more (--format=json has all)\n", count - shown);
}

void cli_usage_receipt(struct ty_arena *a, struct ty_buf *b, const json_t *usage)
{
    const json_t *attempts = json_object_get(usage, "attempts"), *attempt;
    size_t i;
    json_array_foreach (attempts, i, attempt) {
        const json_t *replicas = json_object_get(attempt, "replicas");
        if (json_array_size(replicas) == 0)
            continue;
        if (json_array_size(attempts) > 1)
            ty_buf_addf(b, "Attempt %.0f:\n", number(attempt, "attempt"));
        add_table(a, b, attempt);
    }
}

void cli_usage_text(struct ty_arena *a, struct ty_buf *b, const json_t *usage)
{
    const json_t *attempts = json_object_get(usage, "attempts"), *attempt;
    size_t i, before = b->len;
    cli_usage_receipt(a, b, usage);
    if (b->len == before)
        ty_buf_addz(b, "Nothing is known yet: the job has not started, or not long enough ago.\n");
    json_array_foreach (attempts, i, attempt) {
        const json_t *replicas = json_object_get(attempt, "replicas");
        for (size_t k = 0; k < json_array_size(replicas) && k < SHOWN_PLOTS; k++)
            add_plots(a, b, json_array_get(replicas, k));
    }
}

/* ---- the command ---- */

ty_err cli_usage_fetch(struct cli *c, ty_str id, json_t **ret_usage)
{
    struct ty_buf b;
    int64_t attempt = cli_arg_int(&c->args, "attempt", 0);
    ty_buf_init(&b, 1 << 16);
    ty_buf_addz(&b, "/trainyard/v1/projects/");
    wire_url_encode(&b, ty_str_of(c->project));
    ty_buf_addf(&b, "/jobs/" TY_STR_FMT "/usage", TY_STR_ARG(id));
    if (attempt > 0)
        ty_buf_addf(&b, "?attempt=%" PRId64, attempt);
    ty_err err = cli_call(c, HTTP_GET, b.ptr, TY_STR(""), CALL_MS, ret_usage);
    ty_buf_clear(&b);
    return err;
}

int cli_usage(struct cli *c)
{
    ty_str id;
    json_t *usage;
    struct ty_buf b;
    int status = cli_job_begin(c, &id);
    if (status != CLI_OK)
        return status;
    ty_err err = cli_usage_fetch(c, id, &usage);
    if (err != TY_OK)
        return cli_fail(c, err);
    if (cli_arg(&c->args, "format").len > 0) {
        status = cli_print(c, usage, "yaml");
    } else {
        ty_buf_init(&b, TEXT_BYTES);
        cli_usage_text(c->arena, &b, usage);
        fputs(b.ptr, stdout);
        ty_buf_clear(&b);
    }
    json_decref(usage);
    return status;
}

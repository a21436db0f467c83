/* grid.c -- rows and columns for people: aligned, boxed, and the table of jobs. What is shown here
 * is escaped (text.c), because it goes to a terminal. */
#include "cli/cli_int.h"

#include "wire/wire.h"

/* "12s", "5m", "3h", "2d": short, because only the size matters in a list. */
const char *cli_span_text(struct ty_arena *a, int64_t ns)
{
    int64_t s = ns > 0 ? ns / 1000000000 : 0;
    if (s < 120)
        return ty_format(a, "%" PRId64 "s", s);
    if (s < 7200)
        return ty_format(a, "%" PRId64 "m", s / 60);
    if (s < 172800)
        return ty_format(a, "%" PRId64 "h", s / 3600);
    return ty_format(a, "%" PRId64 "d", s / 86400);
}

static bool time_of(const json_t *job, const char *key, int64_t *ret_ns)
{
    return wire_time_parse(wire_json_get_str(job, key), ret_ns) == TY_OK;
}

enum { COLUMNS = 5 };

static void row_of(struct ty_arena *a, const json_t *job, ty_str ret_cells[COLUMNS])
{
    int64_t now = ty_now_ns(), created, started, ended;
    ty_str name = wire_json_get_str(job, "name"), state = wire_json_get_str(job, "state"), part;
    while (ty_str_split(&name, '/', &part))
        ;
    if (ty_str_starts(state, TY_STR("JOB_STATE_")))
        state = ty_str_drop(state, 10);
    ret_cells[0] = part;
    ret_cells[1] = wire_json_get_str(job, "displayName");
    ret_cells[2] = state;
    ret_cells[3] = TY_STR("-");
    ret_cells[4] = TY_STR("-");
    if (time_of(job, "createTime", &created))
        ret_cells[3] = ty_str_of(ty_format(a, "%s ago", cli_span_text(a, now - created)));
    if (time_of(job, "startTime", &started))
        ret_cells[4] =
            ty_str_of(cli_span_text(a, (time_of(job, "endTime", &ended) ? ended : now) - started));
}

void cli_table_add(struct ty_arena *a, struct ty_buf *b, ty_str *cells, size_t rows, size_t columns)
{
    size_t width[CLI_MAX_COLUMNS] = {0};
    for (size_t i = 0; i < rows * columns; i++) {
        cells[i] = cli_text_shown(a, cells[i], false);
        size_t w = cli_text_width(cells[i]), *most = &width[i % columns];
        *most = w > *most ? w : *most;
    }
    for (size_t i = 0; i < rows * columns; i++) {
        bool last = i % columns + 1 == columns;
        ty_buf_adds(b, cells[i]);
        for (size_t pad = cli_text_width(cells[i]); !last && pad < width[i % columns] + 2; pad++)
            ty_buf_addc(b, ' ');
        ty_buf_addz(b, last ? "\n" : "");
    }
}

void cli_job_table_add(struct ty_arena *a, struct ty_buf *b, const json_t *jobs)
{
    static const ty_str head[COLUMNS] = {
        {"ID", 2}, {"NAME", 4}, {"STATE", 5}, {"CREATED", 7}, {"DURATION", 8}};
    size_t count = json_array_size(jobs);
    ty_str *cells = ty_new_array(a, ty_str, (count + 1) * COLUMNS);
    memcpy(cells, head, sizeof(head));
    for (size_t i = 0; i < count; i++)
        row_of(a, json_array_get(jobs, i), cells + (i + 1) * COLUMNS);
    cli_table_add(a, b, cells, count + 1, COLUMNS);
}

/* ---- --format=table[...](...) ---- */

static void add_many(struct ty_buf *b, const char *what, size_t count)
{
    while (count-- > 0)
        ty_buf_addz(b, what);
}

/* How much of `free` columns is before a text in the middle of `width`, as Python's center() has
 * it: of an odd one the half more is left only where the width is odd too. */
static size_t before_middle(size_t free, size_t width)
{
    return free / 2 + (free & width & 1);
}

static size_t before_text(enum cli_align align, size_t free, size_t width)
{
    return align == CLI_RIGHT ? free : align == CLI_CENTER ? before_middle(free, width) : 0;
}

/* The lines of a box: its ends, and what is between columns. */
static void add_rule(struct ty_buf *b, const size_t *width, size_t columns,
                     const char *const ends[3])
{
    for (size_t k = 0; k < columns; k++) {
        ty_buf_addz(b, k == 0 ? ends[0] : ends[1]);
        add_many(b, "─", width[k] + 2);
    }
    ty_buf_addf(b, "%s\n", ends[2]);
}

static void add_boxed_row(struct ty_buf *b, const ty_str *cells, const size_t *width,
                          size_t columns, const enum cli_align *align)
{
    for (size_t k = 0; k < columns; k++) {
        size_t left = width[k] - cli_text_width(cells[k]);
        size_t before = before_text(align != NULL ? align[k] : CLI_CENTER, left, width[k]);
        ty_buf_addz(b, "│ ");
        add_many(b, " ", before);
        ty_buf_adds(b, cells[k]);
        add_many(b, " ", left - before + 1);
    }
    ty_buf_addz(b, "│\n");
}

/* Without spaces at the end. */
static void add_plain_row(struct ty_buf *b, const ty_str *cells, const size_t *width,
                          size_t columns, const struct cli_grid *g)
{
    size_t spaces = 0;
    for (size_t k = 0; k < columns; k++) {
        size_t left = width[k] - cli_text_width(cells[k]);
        size_t before = before_text(g->align[k], left, width[k]);
        if (cells[k].len == 0) {
            spaces += width[k] + g->pad;
            continue;
        }
        add_many(b, " ", spaces + before);
        ty_buf_adds(b, cells[k]);
        spaces = left - before + g->pad;
    }
    ty_buf_addz(b, "\n");
}

/* In the middle over the columns, which it widens if they are too narrow for it. */
static void add_title(struct ty_buf *b, const struct cli_grid *g, size_t *width, size_t columns)
{
    static const char *const top[] = {"┌", "─", "┐"};
    size_t title = cli_text_width(g->title), all = 0;
    for (size_t k = 0; k < columns; k++)
        all += width[k];
    size_t more = columns > 0 && all < title ? (title + columns - 1) / columns : 0;
    for (size_t k = 0; k < columns; k++)
        width[k] += more;
    all += columns * more + (g->box ? 3 * columns - 1 : g->pad * (columns - 1));
    size_t free = all > title ? all - title : 0, before = before_middle(free, all);
    if (g->box)
        add_rule(b, width, columns, top);
    ty_buf_addz(b, g->box ? "│" : "");
    add_many(b, " ", before);
    ty_buf_adds(b, g->title);
    add_many(b, " ", g->box ? free - before : 0);
    ty_buf_addz(b, g->box ? "│\n" : "\n");
}

static void add_box(struct ty_buf *b, const ty_str *cells, size_t rows, const size_t *width,
                    size_t columns, const struct cli_grid *g)
{
    static const char *const top[] = {"┌", "┬", "┐"}, *const under[] = {"├", "┬", "┤"},
                             *const rule[] = {"├", "┼", "┤"}, *const bottom[] = {"└", "┴", "┘"};
    add_rule(b, width, columns, g->title.len > 0 ? under : top);
    for (size_t i = 0; i < rows; i++) {
        bool heading = g->heading && i == 0;
        add_boxed_row(b, cells + i * columns, width, columns, heading ? NULL : g->align);
        if (i + 1 < rows && (heading || g->all_box))
            add_rule(b, width, columns, rule);
    }
    add_rule(b, width, columns, bottom);
}

void cli_grid_add(struct ty_arena *a, struct ty_buf *b, ty_str *cells, size_t rows, size_t columns,
                  const struct cli_grid *grid)
{
    struct cli_grid g = *grid;
    size_t width[CLI_MAX_COLUMNS] = {0};
    for (size_t i = 0; i < rows * columns; i++) {
        cells[i] = cli_text_shown(a, cells[i], false);
        size_t w = cli_text_width(cells[i]), *most = &width[i % columns];
        *most = w > *most ? w : *most;
    }
    g.title = cli_text_shown(a, g.title, false);
    if (g.title.len > 0)
        add_title(b, &g, width, columns);
    if (g.box)
        add_box(b, cells, rows, width, columns, &g);
    for (size_t i = 0; i < rows && !g.box; i++)
        add_plain_row(b, cells + i * columns, width, columns, &g);
}

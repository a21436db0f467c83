/* plot.c -- the curves of a run as a picture: a panel for each metric, two beside each other, with
 * axes at round numbers. */
#include "train/train_int.h"

#include <math.h>

enum {
    PANEL_WIDTH = 640,
    PANEL_HEIGHT = 400,
    LEFT = 110, /* of a panel, around its plot */
    RIGHT = 30,
    TOP = 64,
    BOTTOM = 56,
    LETTER = 2, /* dots of a letter's dot */
    LETTER_HEIGHT = 7 * LETTER,
    TITLE_WIDTH = 190,
    TICKS = 5,
    TICK = 5,
    MOST_DISCS = 40, /* epochs up to which each has a disc */
};
static const uint32_t WHITE = 0xffffff, INK = 0x24292f, FAINT = 0xe4e7eb, GREY = 0x6b7280;
static const uint32_t COLOURS[2] = {0x2563eb, 0xe8590c};
static const char *const PARTS[2] = {"training", "validation"};

struct panel {
    struct canvas *canvas;
    const struct report *report;
    int x, y; /* of its corner */
    double low, high;
    size_t columns[2], column_count; /* training, validation */
};

/* The round number, 1, 2 or 5 times a power of ten, that cuts a span into about so many parts. */
static double step_of(double span, int parts)
{
    double rough = span / parts, power = pow(10, floor(log10(rough))), of = rough / power;
    return power * (of <= 1 ? 1 : of <= 2 ? 2 : of <= 5 ? 5 : 10);
}

static double value_at(const struct panel *p, size_t row, size_t part)
{
    return report_value(p->report, row, p->columns[part]);
}

static void range_find(struct panel *p)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < p->report->rows; i++)
        for (size_t k = 0; k < p->column_count; k++)
            if (isfinite(value_at(p, i, k))) {
                low = fmin(low, value_at(p, i, k));
                high = fmax(high, value_at(p, i, k));
            }
    if (!(low <= high))
        low = high = 0;
    double least = fmax(fabs(high), 1e-9) * 1e-6, room = fmax(high - low, least) * 0.06;
    p->low = low - room;
    p->high = high + room;
}

static void place(const struct panel *p, double epoch, double value, double ret[2])
{
    double epochs = (double)(p->report->rows > 1 ? p->report->rows - 1 : 1);
    ret[0] = p->x + LEFT + (epoch - 1) / epochs * (PANEL_WIDTH - LEFT - RIGHT);
    ret[1] = p->y + TOP + (p->high - value) / (p->high - p->low) * (PANEL_HEIGHT - TOP - BOTTOM);
}

static void value_axis(const struct panel *p)
{
    double step = step_of(p->high - p->low, TICKS);
    int last = (int)floor(p->high / step);
    for (int k = (int)ceil(p->low / step); k <= last; k++) {
        double from[2], to[2];
        char text[32];
        place(p, 1, k * step, from);
        to[0] = p->x + PANEL_WIDTH - RIGHT;
        to[1] = from[1];
        canvas_line(p->canvas, from, to, 1, FAINT);
        snprintf(text, sizeof text, "%.6g", k * step);
        canvas_text(p->canvas, p->x + LEFT - 2 * TICK - canvas_text_width(text, LETTER),
                    (int)from[1] - LETTER_HEIGHT / 2, text, LETTER, GREY);
    }
}

static void epoch_axis(const struct panel *p)
{
    size_t epochs = p->report->rows, gaps = epochs > 1 ? epochs - 1 : 1;
    size_t step = (size_t)fmax(1, step_of((double)gaps, TICKS + 3));
    int bottom = p->y + PANEL_HEIGHT - BOTTOM;
    for (size_t at = 1; at <= epochs; at = at == 1 && step > 1 ? step : at + step) {
        double top[2], end[2];
        char text[32];
        place(p, (double)at, p->low, top);
        end[0] = top[0];
        end[1] = bottom + TICK;
        canvas_line(p->canvas, top, end, 1, GREY);
        snprintf(text, sizeof text, "%zu", at);
        canvas_text(p->canvas, (int)top[0] - canvas_text_width(text, LETTER) / 2, bottom + 2 * TICK,
                    text, LETTER, GREY);
    }
    canvas_text(p->canvas,
                p->x + (LEFT + PANEL_WIDTH - RIGHT - canvas_text_width("epoch", LETTER)) / 2,
                bottom + 3 * TICK + LETTER_HEIGHT, "epoch", LETTER, GREY);
}

static void axes_draw(const struct panel *p)
{
    double corner[2], up[2], right[2];
    value_axis(p);
    epoch_axis(p);
    place(p, 1, p->low, corner);
    place(p, 1, p->high, up);
    right[0] = p->x + PANEL_WIDTH - RIGHT;
    right[1] = corner[1];
    canvas_line(p->canvas, corner, up, 1.4, GREY);
    canvas_line(p->canvas, corner, right, 1.4, GREY);
}

static void curve_draw(const struct panel *p, size_t part)
{
    bool discs = p->report->rows <= MOST_DISCS;
    for (size_t i = 0; i < p->report->rows; i++) {
        double from[2], to[2], value = value_at(p, i, part);
        if (!isfinite(value))
            continue;
        place(p, (double)i + 1, value, to);
        if (discs)
            canvas_line(p->canvas, to, to, 7, COLOURS[part]);
        if (i == 0 || !isfinite(value_at(p, i - 1, part)))
            continue;
        place(p, (double)i, value_at(p, i - 1, part), from);
        canvas_line(p->canvas, from, to, 2.2, COLOURS[part]);
    }
}

static void title_draw(const struct panel *p)
{
    int x = p->x + PANEL_WIDTH - RIGHT, y = p->y + TOP / 2 - LETTER_HEIGHT / 2;
    const char *name = p->report->names[p->columns[0]];
    int size = canvas_text_width(name, LETTER + 1) <= TITLE_WIDTH ? LETTER + 1 : LETTER;
    int over = canvas_text_width(name, size) - TITLE_WIDTH; /* a long one begins further left */
    canvas_text(p->canvas, p->x + LEFT - (over > 0 ? over : 0), y - LETTER, name, size, INK);
    for (size_t k = p->column_count > 1 ? TY_COUNT(PARTS) : 0; k-- > 0;) {
        double from[2] = {0, y + LETTER_HEIGHT / 2.0}, to[2] = {0, from[1]};
        x -= canvas_text_width(PARTS[k], LETTER);
        canvas_text(p->canvas, x, y, PARTS[k], LETTER, GREY);
        to[0] = x - 2 * TICK;
        from[0] = to[0] - 4 * TICK;
        canvas_line(p->canvas, from, to, 4, COLOURS[k]);
        x = (int)from[0] - 4 * TICK;
    }
}

/* Which metrics have a panel: all but those that are the loss again. */
static size_t panels_choose(const struct report *r, size_t *ret_columns)
{
    size_t count = 0, all = report_metrics(r);
    for (size_t i = 0; i < all; i++)
        if (!report_repeats(r, i))
            ret_columns[count++] = i;
    return count;
}

ty_err train_plot(const struct report *r, const char *path)
{
    size_t columns[METRICS_MOST], count = panels_choose(r, columns), all = report_metrics(r);
    size_t across = count > 1 ? 2 : 1, down = (count + across - 1) / across;
    struct canvas c;
    struct ty_buf b;
    if (r->rows == 0)
        return TY_OK;
    canvas_init(&c, (int)across * PANEL_WIDTH, (int)down * PANEL_HEIGHT, WHITE);
    for (size_t i = 0; i < count; i++) {
        struct panel p = {.canvas = &c,
                          .report = r,
                          .x = (int)(i % across) * PANEL_WIDTH,
                          .y = (int)(i / across) * PANEL_HEIGHT,
                          .columns = {columns[i], all + columns[i]},
                          .column_count = all < r->columns ? 2 : 1};
        range_find(&p);
        axes_draw(&p);
        for (size_t k = 0; k < p.column_count; k++)
            curve_draw(&p, k);
        title_draw(&p);
    }
    ty_buf_init(&b, (size_t)1 << 28);
    ty_err err = canvas_png(&c, &b);
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, path, ty_buf_str(&b), 0644);
    ty_buf_clear(&b);
    canvas_clear(&c);
    return err;
}

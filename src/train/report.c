/* report.c -- what a run prints: Keras's lines, a bar on a terminal, curves at the end.
 *
 * A line an epoch, as Keras with verbose=2. On a terminal the line of the running epoch is redrawn
 * a few times a second with rate and time left, and as many metrics as the terminal is wide; in a
 * log there are no such lines. */
#include "train/train_int.h"

#include <math.h>
#include <sys/ioctl.h>

enum { REDRAW_MS = 100, BAR_WIDTH = 20, PLOT_ROWS = 12, PLOT_COLUMNS = 64 };
enum { USUAL_COLUMNS = 80, LINE_BYTES = 1 << 16 };

void report_init(struct report *r, bool quiet, int64_t epochs, int64_t steps_per_epoch,
                 size_t batch_size)
{
    *r = (struct report){.quiet = quiet,
                         .is_terminal = !quiet && isatty(STDOUT_FILENO),
                         .epochs = epochs,
                         .steps_per_epoch = steps_per_epoch,
                         .batch_size = batch_size};
    ty_buf_init(&r->history, (size_t)1 << 28);
}

void report_clear(struct report *r)
{
    ty_buf_clear(&r->history);
}

void report_epoch_begin(struct report *r, int64_t epoch)
{
    r->epoch_began_ns = r->shown_ns = ty_boot_ns();
    if (!r->quiet)
        printf("Epoch %" PRId64 "/%" PRId64 "\n", epoch + 1, r->epochs);
    fflush(stdout);
}

/* Of the terminal, as it is now: it may be made narrower at any time. */
static size_t terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return USUAL_COLUMNS;
    return size.ws_col;
}

void report_line(const struct report *r, int64_t epoch, int64_t step, double seconds,
                 const struct metrics *m, size_t columns, struct ty_buf *b)
{
    char bar[BAR_WIDTH + 1];
    int full = (int)(step * BAR_WIDTH / r->steps_per_epoch);
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < full ? '=' : i == full ? '>' : '.';
    bar[BAR_WIDTH] = '\0';
    double rate = (double)step * (double)r->batch_size / seconds;
    int64_t left = (r->epochs - epoch) * r->steps_per_epoch - step;
    ty_buf_addf(b, "%" PRId64 "/%" PRId64 " [%s] %.0f examples/s, %.0f s left", step,
                r->steps_per_epoch, bar, rate, (double)left * seconds / (double)step);
    for (size_t i = 0; i < m->count; i++) {
        size_t before = b->len;
        ty_buf_addf(b, " - %s: %.4f", m->list[i].name, metric_value(&m->list[i]));
        if (b->len >= columns) {
            b->len = before;
            break;
        }
    }
    if (b->len >= columns) /* a character in the last column would begin another line */
        b->len = columns > 0 ? columns - 1 : 0;
}

void report_step(struct report *r, int64_t epoch, int64_t step, const struct metrics *m)
{
    struct ty_buf b;
    if (!r->is_terminal || step % 16 != 0)
        return;
    int64_t now = ty_boot_ns();
    if (now - r->shown_ns < REDRAW_MS * INT64_C(1000000))
        return;
    r->shown_ns = now;
    ty_buf_init(&b, LINE_BYTES);
    report_line(r, epoch, step, (double)(now - r->epoch_began_ns) / 1e9, m, terminal_columns(), &b);
    printf("\r" TY_STR_FMT "\033[K", TY_STR_ARG(ty_buf_str(&b)));
    fflush(stdout);
    ty_buf_clear(&b);
}

/* "4 significant digits after the point, or an exponent", as Keras. */
static void value_print(const char *prefix, const struct metric *m)
{
    double value = metric_value(m);
    if (fabs(value) > 1e-3)
        printf(" - %s%s: %.4f", prefix, m->name, value);
    else
        printf(" - %s%s: %.4e", prefix, m->name, value);
}

static void history_add(struct report *r, const char *name, double value)
{
    if (r->rows == 0 && r->columns < TY_COUNT(r->names))
        r->names[r->columns++] = name;
    ty_buf_add(&r->history, &value, sizeof value);
}

static void time_print(double seconds, const char *each)
{
    if (seconds >= 1)
        printf(" - %.0fs/%s", seconds, each);
    else if (seconds >= 1e-3)
        printf(" - %.0fms/%s", seconds * 1e3, each);
    else
        printf(" - %.0fus/%s", seconds * 1e6, each);
}

void report_epoch_end(struct report *r, int64_t steps, const struct metrics *train,
                      const struct metrics *valid)
{
    double seconds = (double)(ty_boot_ns() - r->epoch_began_ns) / 1e9;
    for (size_t i = 0; i < train->count; i++)
        history_add(r, train->list[i].name, metric_value(&train->list[i]));
    for (size_t i = 0; valid && i < valid->count; i++)
        history_add(r, valid->list[i].name, metric_value(&valid->list[i]));
    r->rows++;
    if (r->quiet)
        return;
    printf("%s%" PRId64 "/%" PRId64 " - %.0fs", r->is_terminal ? "\r\033[K" : "", steps,
           r->steps_per_epoch, seconds);
    for (size_t i = 0; i < train->count; i++)
        value_print("", &train->list[i]);
    for (size_t i = 0; valid && i < valid->count; i++)
        value_print("val_", &valid->list[i]);
    time_print(seconds, "epoch");
    time_print(seconds / (double)(steps > 0 ? steps : 1), "step");
    printf("\n");
    fflush(stdout);
}

/* ---- curves in characters ---- */

double report_value(const struct report *r, size_t row, size_t column)
{
    double value;
    memcpy(&value, r->history.ptr + (row * r->columns + column) * sizeof value, sizeof value);
    return value;
}

/* One metric: '*' while training, 'o' in validation. */
static void plot_one(const struct report *r, size_t column, size_t valid_column)
{
    char grid[PLOT_ROWS][PLOT_COLUMNS + 1];
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < r->rows; i++)
        for (size_t k = 0; k < 2; k++) {
            double value = report_value(r, i, k ? valid_column : column);
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
    for (size_t y = 0; y < PLOT_ROWS; y++) {
        memset(grid[y], ' ', PLOT_COLUMNS);
        grid[y][PLOT_COLUMNS] = '\0';
    }
    double span = high > low ? high - low : 1;
    for (size_t i = 0; i < r->rows; i++)
        for (size_t k = 0; k < 2; k++) {
            double value = report_value(r, i, k ? valid_column : column);
            size_t x = r->rows > 1 ? i * (PLOT_COLUMNS - 1) / (r->rows - 1) : 0;
            size_t y = (size_t)((high - value) / span * (PLOT_ROWS - 1) + 0.5);
            if (value == value && y < PLOT_ROWS)
                grid[y][x] = k && valid_column != column ? 'o' : '*';
        }
    printf("\n%s%s\n", r->names[column],
           valid_column != column ? "  (* training, o validation)" : "");
    for (size_t y = 0; y < PLOT_ROWS; y++)
        printf("%12.4g |%s\n", high - span * (double)y / (PLOT_ROWS - 1), grid[y]);
    printf("%12s +%.*s\n%13s epoch 1 to %zu\n", "", PLOT_COLUMNS,
           "----------------------------------------------------------------", "", r->rows);
}

size_t report_metrics(const struct report *r)
{
    size_t count = 1;
    while (count < r->columns && strcmp(r->names[count], r->names[0]) != 0)
        count++;
    return count; /* from here on they are the validation's */
}

bool report_repeats(const struct report *r, size_t column)
{
    bool same = column > 0;
    for (size_t i = 0; i < r->rows && same; i++)
        same = report_value(r, i, column) == report_value(r, i, 0);
    return same;
}

void report_plot(const struct report *r)
{
    size_t half = report_metrics(r);
    for (size_t i = 0; i < half && r->rows > 0; i++)
        if (!report_repeats(r, i))
            plot_one(r, i, half < r->columns ? half + i : i);
    fflush(stdout);
}

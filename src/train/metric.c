/* metric.c -- metrics as TensorFlow defines them, as sums over batches.
 *
 * rmse is the function of the reference trainer: the root of each batch's mean, averaged over
 * batches. root_mean_squared_error is Keras's class: the root of the mean of all. AUC is Keras's
 * with 200 thresholds: counts of labels above each, joined by straight lines. */
#include "train/train_int.h"

#include <math.h>

enum { REGRESSION = 1 << NN_REGRESSION, BINARY = 1 << NN_BINARY };
enum { CLASSES = BINARY | 1 << NN_MULTICLASS, ANY = REGRESSION | CLASSES };
enum { SUM, COUNT };                                                     /* of means */
enum { TRUE_POSITIVE, FALSE_POSITIVE, FALSE_NEGATIVE };                  /* at one half */
enum { POSITIVE_AT = 4, NEGATIVE_AT = POSITIVE_AT + METRIC_THRESHOLDS }; /* histograms */

struct batch {
    const struct nn_model *model;
    const float *logits, *losses, *labels;
    size_t count;
};
struct metric_kind {
    const char *name;
    int heads;
    void (*add)(double *sums, const struct batch *b);
    double (*value)(const double *sums);
};

/* ---- means ---- */

static double mean_value(const double *sums)
{
    return sums[COUNT] > 0 ? sums[SUM] / sums[COUNT] : 0;
}

static double root_value(const double *sums)
{
    return sqrt(mean_value(sums));
}

static void loss_add(double *sums, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        sums[SUM] += (double)b->losses[i];
    sums[COUNT] += (double)b->count;
}

static double squares(const struct batch *b)
{
    double sum = 0;
    for (size_t i = 0; i < b->count; i++) {
        double off = (double)b->logits[i] - (double)b->labels[i];
        sum += off * off;
    }
    return sum;
}

static void mse_add(double *sums, const struct batch *b)
{
    sums[SUM] += squares(b);
    sums[COUNT] += (double)b->count;
}

static void rmse_add(double *sums, const struct batch *b)
{
    sums[SUM] += sqrt(squares(b) / (double)b->count);
    sums[COUNT] += 1;
}

static void mae_add(double *sums, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        sums[SUM] += fabs((double)b->logits[i] - (double)b->labels[i]);
    sums[COUNT] += (double)b->count;
}

static size_t class_of(const struct batch *b, size_t row)
{
    size_t n = b->model->class_count, best = 0;
    const float *x = b->logits + row * n;
    if (b->model->head == NN_BINARY)
        return x[0] > 0;
    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static void accuracy_add(double *sums, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        sums[SUM] += class_of(b, i) == (size_t)b->labels[i];
    sums[COUNT] += (double)b->count;
}

static void label_add(double *sums, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        sums[SUM] += (double)b->labels[i];
    sums[COUNT] += (double)b->count;
}

static float logistic(float x)
{
    return x >= 0 ? 1 / (1 + expf(-x)) : expf(x) / (1 + expf(x));
}

static void prediction_add(double *sums, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        sums[SUM] += (double)logistic(b->logits[i]);
    sums[COUNT] += (double)b->count;
}

static double baseline_value(const double *sums)
{
    double mean = mean_value(sums);
    return mean > 0.5 ? mean : 1 - mean;
}

/* ---- counts of a binary head at one half ---- */

static void half_add(double *sums, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        bool said = b->logits[i] > 0, is = b->labels[i] > 0.5f;
        sums[TRUE_POSITIVE] += said && is;
        sums[FALSE_POSITIVE] += said && !is;
        sums[FALSE_NEGATIVE] += !said && is;
    }
}

static double share(double part, double rest)
{
    return part + rest > 0 ? part / (part + rest) : 0;
}

static double precision_value(const double *sums)
{
    return share(sums[TRUE_POSITIVE], sums[FALSE_POSITIVE]);
}

static double recall_value(const double *sums)
{
    return share(sums[TRUE_POSITIVE], sums[FALSE_NEGATIVE]);
}

static double f1_value(const double *sums)
{
    return share(2 * sums[TRUE_POSITIVE], sums[FALSE_POSITIVE] + sums[FALSE_NEGATIVE]);
}

/* ---- areas under curves ---- */

/* Thresholds as Keras has them: -1e-7, 1/199, 2/199, ..., 198/199, 1 + 1e-7. */
static float threshold(size_t i)
{
    if (i == 0)
        return -1e-7f;
    return i == METRIC_THRESHOLDS - 1 ? 1 + 1e-7f
                                      : (float)((double)i / (double)(METRIC_THRESHOLDS - 1));
}

/* The histogram's bucket: how many thresholds are below the prediction, less one. */
static size_t bucket_of(float p)
{
    size_t i = (size_t)(p * (METRIC_THRESHOLDS - 1));
    i = i < METRIC_THRESHOLDS - 1 ? i : METRIC_THRESHOLDS - 2;
    while (i > 0 && !(threshold(i) < p))
        i--;
    while (i + 1 < METRIC_THRESHOLDS && threshold(i + 1) < p)
        i++;
    return i;
}

static void counts_add(double *sums, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        size_t at = bucket_of(logistic(b->logits[i]));
        sums[(b->labels[i] > 0.5f ? POSITIVE_AT : NEGATIVE_AT) + at] += 1;
    }
}

/* Predictions above each threshold. */
static void counts_above(const double *sums, double *positive, double *negative)
{
    double p = 0, n = 0;
    for (size_t i = METRIC_THRESHOLDS; i-- > 0;) {
        positive[i] = p += sums[POSITIVE_AT + i];
        negative[i] = n += sums[NEGATIVE_AT + i];
    }
}

static double auc_value(const double *sums)
{
    double p[METRIC_THRESHOLDS], n[METRIC_THRESHOLDS], area = 0;
    counts_above(sums, p, n);
    if (p[0] == 0 || n[0] == 0)
        return 0;
    for (size_t i = 0; i + 1 < METRIC_THRESHOLDS; i++)
        area += (n[i] - n[i + 1]) / n[0] * (p[i] + p[i + 1]) / (2 * p[0]);
    return area;
}

/* Keras's interpolation of precision and recall: precision along a line of true and false
 * positives. */
static double auc_pr_value(const double *sums)
{
    double p[METRIC_THRESHOLDS], n[METRIC_THRESHOLDS], area = 0;
    counts_above(sums, p, n);
    for (size_t i = 0; i + 1 < METRIC_THRESHOLDS; i++) {
        double dtp = p[i] - p[i + 1], all = p[i] + n[i], after = p[i + 1] + n[i + 1];
        double dall = all - after;
        double slope = dall > 0 ? dtp / dall : 0, base = p[i + 1] - slope * after;
        double ratio = all > 0 && after > 0 ? all / after : 1;
        area += slope * (dtp + base * log(ratio)) / (p[0] > 0 ? p[0] : 1);
    }
    return area;
}

/* ---- lists of them ---- */

static const struct metric_kind KINDS[] = {
#define METRIC(name, heads, add, value) {#name, heads, add, value},
#include "train/metrics.def"
#undef METRIC
};

static const struct metric_kind *kind_find(ty_str name, enum nn_head head)
{
    for (size_t i = 1; i < TY_COUNT(KINDS); i++)
        if (ty_str_is(name, KINDS[i].name) && KINDS[i].heads & 1 << head)
            return &KINDS[i];
    return NULL;
}

ty_err metrics_init(struct metrics *m, const struct nn_model *model)
{
    const struct nn_training *t = &model->training;
    memset(m, 0, sizeof *m);
    m->list[m->count++].kind = &KINDS[0];
    for (size_t i = 0; i < t->metric_count; i++) {
        const struct metric_kind *kind = kind_find(t->metrics[i], model->head);
        if (kind == NULL) {
            struct ty_buf b;
            ty_buf_init(&b, 400);
            for (size_t k = 1; k < TY_COUNT(KINDS); k++)
                if (KINDS[k].heads & 1 << model->head)
                    ty_buf_addf(&b, "%s%s", b.len ? ", " : "", KINDS[k].name);
            ty_err err = ty_fail(TY_INVALID_ARGUMENT,
                                 "training: metrics: no '%s' for this head; there are %s",
                                 t->metrics[i].ptr, b.ptr);
            ty_buf_clear(&b);
            return err;
        }
        m->list[m->count++].kind = kind;
    }
    return TY_OK;
}

void metrics_reset(struct metrics *m)
{
    for (size_t i = 0; i < m->count; i++)
        memset(m->list[i].sums, 0, sizeof m->list[i].sums);
}

void metrics_add(struct metrics *m, const struct nn_model *model, const float *logits,
                 const float *losses, const float *labels, size_t count)
{
    struct batch b = {model, logits, losses, labels, count};
    for (size_t i = 0; i < m->count; i++)
        m->list[i].kind->add(m->list[i].sums, &b);
}

double metric_value(const struct metric *m)
{
    return m->kind->value(m->sums);
}

const char *metric_name(const struct metric *m)
{
    return m->kind->name;
}

/* metric.c -- metrics as TensorFlow defines them, as sums over batches.
 *
 * rmse is the function of the reference trainer: the root of each batch's mean, averaged over
 * batches. root_mean_squared_error is Keras's class: the root of the mean of all. AUC is Keras's
 * with 200 thresholds: counts of labels above each, joined by straight lines. */
#include "train/train_int.h"

#include <math.h>

enum { SUM, COUNT };                                                     /* of means */
enum { TRUE_POSITIVE, FALSE_POSITIVE, FALSE_NEGATIVE };                  /* at one half */
enum { POSITIVE_AT = 4, NEGATIVE_AT = POSITIVE_AT + METRIC_THRESHOLDS }; /* histograms */

/* Rows as one head sees them; what is side by side in a row belongs to all heads. */
struct batch {
    const struct nn_head *head;
    const float *logits, *losses, *labels;
    size_t logits_each, losses_each, labels_each;
    size_t count;
};
struct metric_kind {
    const char *name;
    void (*add)(double *sums, const struct batch *b);
    double (*value)(const double *sums);
};

static float logit(const struct batch *b, size_t row)
{
    return b->logits[row * b->logits_each];
}

static float label(const struct batch *b, size_t row)
{
    return b->labels[row * b->labels_each];
}

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
        sums[SUM] += (double)b->losses[i * b->losses_each];
    sums[COUNT] += (double)b->count;
}

static double squares(const struct batch *b)
{
    double sum = 0;
    for (size_t i = 0; i < b->count; i++) {
        double off = (double)logit(b, i) - (double)label(b, i);
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
        sums[SUM] += fabs((double)logit(b, i) - (double)label(b, i));
    sums[COUNT] += (double)b->count;
}

static size_t class_of(const struct batch *b, size_t row)
{
    size_t n = b->head->class_count, best = 0;
    const float *x = b->logits + row * b->logits_each;
    if (b->head->type == NN_BINARY)
        return x[0] > 0;
    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static void accuracy_add(double *sums, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        sums[SUM] += class_of(b, i) == (size_t)label(b, i);
    sums[COUNT] += (double)b->count;
}

static void label_add(double *sums, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        sums[SUM] += (double)label(b, i);
    sums[COUNT] += (double)b->count;
}

static float logistic(float x)
{
    return x >= 0 ? 1 / (1 + expf(-x)) : expf(x) / (1 + expf(x));
}

static void prediction_add(double *sums, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        sums[SUM] += (double)logistic(logit(b, i));
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
        bool said = logit(b, i) > 0, is = label(b, i) > 0.5f;
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
        size_t at = bucket_of(logistic(logit(b, i)));
        sums[(label(b, i) > 0.5f ? POSITIVE_AT : NEGATIVE_AT) + at] += 1;
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
#define METRIC(name, heads, add, value) {#name, add, value},
#include "nn/metrics.def"
#undef METRIC
};

static const struct metric_kind *kind_find(ty_str name)
{
    for (size_t i = 1; i < TY_COUNT(KINDS); i++)
        if (ty_str_is(name, KINDS[i].name))
            return &KINDS[i];
    ty_assert(false); /* the model file was checked by the same table */
    return NULL;
}

static void metric_add(struct metrics *m, const struct metric_kind *kind, size_t head,
                       const char *prefix)
{
    struct metric *to = &m->list[m->count++];
    to->kind = kind;
    to->head = head;
    snprintf(to->name, sizeof to->name, "%s%s%s", prefix, *prefix ? "_" : "", kind->name);
}

/* The loss of all; of several heads also each one's own, as Keras has it. */
void metrics_init(struct ty_arena *a, struct metrics *m, const struct nn_model *model)
{
    size_t most = 1;
    for (size_t i = 0; i < model->head_count; i++)
        most += 1 + model->heads[i].metric_count;
    m->list = ty_new_array(a, struct metric, most);
    m->count = 0;
    metric_add(m, &KINDS[0], SIZE_MAX, "");
    for (size_t i = 0; i < model->head_count; i++) {
        const struct nn_head *h = &model->heads[i];
        const char *prefix = h->name.len ? h->name.ptr : "";
        if (h->name.len)
            metric_add(m, &KINDS[0], i, prefix);
        for (size_t k = 0; k < h->metric_count; k++)
            metric_add(m, kind_find(h->metrics[k]), i, prefix);
    }
}

void metrics_reset(struct metrics *m)
{
    for (size_t i = 0; i < m->count; i++)
        memset(m->list[i].sums, 0, sizeof m->list[i].sums);
}

void metrics_add(struct metrics *m, const struct nn_model *model, const struct nn_outputs *out,
                 size_t first, const float *labels, size_t count)
{
    size_t heads = model->head_count, each = model->logits_each;
    for (size_t i = 0; i < m->count; i++) {
        struct metric *to = &m->list[i];
        bool all = to->head == SIZE_MAX;
        const struct nn_head *h = &model->heads[all ? 0 : to->head];
        struct batch b = {.head = h,
                          .logits = out->logits + first * each + h->from,
                          .losses = all ? out->losses + first
                                        : out->head_losses + first * heads + to->head,
                          .labels = labels + (all ? 0 : to->head),
                          .logits_each = each,
                          .losses_each = all ? 1 : heads,
                          .labels_each = heads,
                          .count = count};
        to->kind->add(to->sums, &b);
    }
}

double metric_value(const struct metric *m)
{
    return m->kind->value(m->sums);
}

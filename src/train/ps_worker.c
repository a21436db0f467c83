/* ps_worker.c -- a trainer's side of the parameter servers: which rows a batch reads, what a step
 * has to send, and all weights for the chief.
 *
 * The net's own arrays are what is pulled into. Frozen parameters (moving means) are changed by the
 * forward pass; what it added to them is what is sent, as TensorFlow's workers do. */
#include "train/train_int.h"

#include <sys/resource.h>

struct train_ps {
    const struct train_cluster *cluster;
    struct ps_client *client;
    struct ty_arena arena;
    struct nn_param *params;
    size_t count;
    struct ps_variable *variables;
    struct ps_layout layout;
    struct ps_part *parts; /* by parameter: what is pushed */
    struct ps_part *wants; /* and what is pulled */
    uint32_t **ids;        /* of tables: rows of the batch, each once */
    uint32_t **marks;      /* row -> the last batch that had it */
    float **before;        /* of frozen ones: as they were before the step */
    uint32_t batches;
};

struct ps_variable *train_ps_variables(struct ty_arena *a, struct nn_net *n,
                                       struct train_optimizer *o, size_t *ret_count)
{
    struct nn_param *params;
    size_t count = nn_net_params(n, &params);
    struct ps_variable *v = ty_new_array(a, struct ps_variable, count);
    for (size_t i = 0; i < count; i++) {
        const char *name;
        v[i] = (struct ps_variable){.count = params[i].count,
                                    .width = params[i].table ? params[i].width : 0};
        v[i].arrays[0] = params[i].data;
        for (size_t k = 0; k < TRAIN_SLOTS; k++)
            v[i].arrays[1 + k] = train_optimizer_slot(o, i, k, &name);
    }
    *ret_count = count;
    return v;
}

ty_err train_ps_open(const struct train_options *o, const struct train_cluster *c,
                     const volatile sig_atomic_t *stopped, struct train_ps **ret_ps)
{
    struct train_ps *p = calloc(1, sizeof *p);
    ty_assert(p);
    p->cluster = c;
    if (c->counts[TRAIN_PS] > PS_MOST_SERVERS || c->trainers > PS_MOST_WORKERS - 1) {
        train_ps_close(p);
        return ty_fail(TY_INVALID_ARGUMENT,
                       "TF_CONFIG: at most %d ps tasks and %d workers are possible",
                       PS_MOST_SERVERS, PS_MOST_WORKERS - 1);
    }
    bool trains = c->role != TRAIN_EVALUATOR;
    struct ps_client_options options = {
        .name = c->name,
        .worker = trains ? (uint32_t)c->rank : PS_MOST_WORKERS,
        .addresses = c->addresses[TRAIN_PS],
        .layout = {.servers = c->counts[TRAIN_PS]},
        .cluster = c->id,
        .bounded = o->bounded,
        .give_up_ms = train_ps_wait_ms(o),
        .trace = o->ps_trace && trains ? ty_format(&p->arena, "%s.worker-%zu", o->ps_trace, c->rank)
                                       : NULL,
        .stopped = stopped};
    ty_err err = ps_client_new(&options, &p->client);
    if (err == TY_OK)
        *ret_ps = p;
    else
        train_ps_close(p);
    return err;
}

void train_ps_close(struct train_ps *p)
{
    if (p == NULL)
        return;
    ps_client_free(p->client);
    ty_arena_clear(&p->arena);
    free(p);
}

int64_t train_ps_wait_ms(const struct train_options *o)
{
    enum { DEFAULT_SECONDS = 20 };
    return 1000 * (o->ps_wait_s > 0 ? o->ps_wait_s : DEFAULT_SECONDS);
}

void train_ps_settings(const struct train_options *o, const struct train_identity *id,
                       uint64_t *ret_settings)
{
    ret_settings[0] = id->parts[IDENTITY_MODEL];
    ret_settings[1] = id->parts[IDENTITY_PARAMETERS];
    ret_settings[2] = id->parts[IDENTITY_SEED];
    ret_settings[3] = o->bounded ? (uint64_t)o->staleness : UINT64_MAX;
}

ty_err train_ps_join(struct train_ps *p, struct nn_net *n, struct train_optimizer *o,
                     const struct ps_run *run, size_t batch, struct ps_joined *ret_joined)
{
    p->count = nn_net_params(n, &p->params);
    p->variables = train_ps_variables(&p->arena, n, o, &p->count);
    ps_layout_init(&p->layout, p->variables, p->count, p->cluster->counts[TRAIN_PS]);
    p->parts = ty_new_array(&p->arena, struct ps_part, p->count);
    p->wants = ty_new_array(&p->arena, struct ps_part, p->count);
    p->ids = ty_new_array(&p->arena, uint32_t *, p->count);
    p->marks = ty_new_array(&p->arena, uint32_t *, p->count);
    p->before = ty_new_array(&p->arena, float *, p->count);
    for (size_t i = 0; i < p->count; i++) {
        const struct nn_param *param = &p->params[i];
        if (param->table) {
            p->ids[i] = ty_new_array(&p->arena, uint32_t, batch);
            p->marks[i] = ty_new_array(&p->arena, uint32_t, (size_t)param->shape.dims[0]);
        } else if (param->frozen) {
            p->before[i] = ty_new_array(&p->arena, float, param->count);
        }
    }
    return ps_client_join(p->client, &p->layout, run, ret_joined);
}

/* The rows of a table that the batch reads. */
static void ids_gather(struct train_ps *p, size_t i, const struct nn_batch *b)
{
    const struct nn_param *param = &p->params[i];
    size_t count = 0;
    for (size_t k = 0; k < b->count; k++) {
        size_t row = b->pick ? b->pick[k] : b->first + k;
        int32_t id = b->rows->ids[row * b->rows->ids_each + param->id_slot];
        if (id < 0 || p->marks[i][id] == p->batches)
            continue;
        p->marks[i][id] = p->batches;
        p->ids[i][count++] = (uint32_t)id;
    }
    p->wants[i] = (struct ps_part){.ids = p->ids[i], .count = count};
}

static void wants_gather(struct train_ps *p, const struct nn_batch *b)
{
    p->batches++;
    for (size_t i = 0; i < p->count; i++)
        if (p->params[i].table)
            ids_gather(p, i, b);
}

ty_err train_ps_pull(struct train_ps *p, const struct nn_batch *b, bool *ret_over)
{
    wants_gather(p, b);
    return ps_client_pull(p->client, p->wants, ret_over);
}

void train_ps_begin(struct train_ps *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->before[i])
            memcpy(p->before[i], p->params[i].data, p->params[i].count * sizeof(float));
}

ty_err train_ps_push(struct train_ps *p, float scale, const struct nn_batch *next,
                     int64_t *ret_step, bool *ret_over)
{
    uint64_t step;
    ty_err err;
    for (size_t i = 0; i < p->count; i++) {
        struct nn_param *param = &p->params[i];
        for (size_t k = 0; p->before[i] && k < param->count; k++)
            param->grad[k] = param->data[k] - p->before[i][k];
        p->parts[i] = (struct ps_part){param->rows, param->row_count, param->grad};
    }
    if (next) {
        wants_gather(p, next);
        err = ps_client_push_pull(p->client, p->parts, scale, p->wants, &step, ret_over);
    } else {
        err = ps_client_push(p->client, p->parts, scale, &step);
    }
    if (err == TY_OK)
        *ret_step = (int64_t)step;
    return err;
}

ty_err train_ps_fetch(struct train_ps *p, struct train_optimizer *o, int64_t *ret_step)
{
    uint64_t step;
    ty_err err = ps_client_read(p->client, &step);
    if (err != TY_OK)
        return err;
    train_optimizer_restored(o, (int64_t)step);
    *ret_step = (int64_t)step;
    return TY_OK;
}

struct ps_client *train_ps_client(struct train_ps *p)
{
    return p->client;
}

void train_ps_report(struct train_ps *p, size_t examples)
{
    struct ps_traffic t;
    ps_client_traffic(p->client, &t);
    train_replica_report(p->cluster, examples, t.sent, t.received);
}

void train_replica_report(const struct train_cluster *c, size_t examples, uint64_t sent,
                          uint64_t received)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double seconds = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                     (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    printf("%s: %zu examples computed, %" PRIu64 " bytes sent, %" PRIu64
           " bytes received, %.2f s of CPU\n",
           c->name, examples, sent, received, seconds);
    fflush(stdout);
}

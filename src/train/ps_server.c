/* ps_server.c -- a ps task: the optimizer of this run, for the part of the weights that is here.
 *
 * The process has a net as the workers have, so names, shapes and first values are the same; of its
 * arrays only what the layout gives this task is ever used, and memory that nobody touches costs
 * nothing. */
#include "train/train_int.h"

enum { LOG_BYTES = 64 << 20 };

struct serving {
    const struct train_options *options;
    const char *checkpoints;
    struct nn_net *net;
    struct train_optimizer *optimizer;
};

static void begin(void *ctx, float scale)
{
    struct serving *s = ctx;
    train_optimizer_begin(s->optimizer, scale);
}

static void plain(void *ctx, const struct ps_segment *g, const float *gradient)
{
    struct serving *s = ctx;
    train_optimizer_apply(s->optimizer, g->variable, g->from, g->count, gradient);
}

static void rows(void *ctx, size_t variable, const uint32_t *ids, size_t count,
                 const float *gradient)
{
    struct serving *s = ctx;
    train_optimizer_apply_rows(s->optimizer, variable, ids, count, gradient);
}

static void ready(void *ctx, size_t variable, const uint32_t *ids, size_t count)
{
    struct serving *s = ctx;
    train_optimizer_rows_ready(s->optimizer, variable, ids, count);
}

static void settle(void *ctx)
{
    struct serving *s = ctx;
    train_optimizer_settle(s->optimizer);
}

static void restored(void *ctx, uint64_t updates, uint64_t steps)
{
    struct serving *s = ctx;
    train_optimizer_run_steps(s->optimizer, (int64_t)steps);
    train_optimizer_restored(s->optimizer, (int64_t)updates);
}

/* A run that begins: from the last checkpoint if it is to be resumed, else from the first values.
 */
static ty_err first(void *ctx, uint64_t run, uint64_t steps, uint64_t *ret_updates)
{
    struct serving *s = ctx;
    struct ty_arena a = {0};
    struct metrics metrics;
    struct train_state state = {0};
    ty_err err = TY_NOT_FOUND;
    train_optimizer_run_steps(s->optimizer, (int64_t)steps);
    if (s->options->resume && s->checkpoints) {
        const struct train_checkpoints c = {.dir = s->checkpoints, .keep = 1, .run_sum = run};
        metrics_init(&a, &metrics, nn_net_model(s->net));
        err = train_checkpoint_load(&c, s->net, s->optimizer, &metrics, &state);
    }
    ty_arena_clear(&a);
    if (err != TY_OK && err != TY_NOT_FOUND)
        return err;
    *ret_updates = err == TY_OK ? (uint64_t)state.step : 0;
    return TY_OK;
}

static const char *const *workers_name(struct ty_arena *a, const struct train_cluster *c)
{
    const char **names = ty_new_array(a, const char *, c->trainers);
    size_t chiefs = c->counts[TRAIN_CHIEF];
    for (size_t i = 0; i < c->trainers; i++)
        names[i] = i < chiefs ? "chief" : ty_format(a, "worker %zu", i - chiefs);
    return names;
}

ty_err train_ps_serve(const struct train_options *o, const struct train_cluster *c,
                      struct nn_net *n, struct train_optimizer *optimizer, uint64_t seed,
                      const volatile sig_atomic_t *stopped)
{
    static const char *const names[PS_SETTINGS] = {"model file", "set of parameters", "seed",
                                                   "--staleness"};
    struct ty_arena a = {0};
    struct serving s = {o, NULL, n, optimizer};
    struct ps_traffic traffic = {0};
    size_t count;
    if (o->ps_dir == NULL && o->output_dir == NULL)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "%s needs --output_dir or --ps_dir: a folder for what "
                       "it must not lose",
                       c->name);
    if (o->ps_listen && !train_address_fits(o->ps_listen))
        return ty_fail(TY_INVALID_ARGUMENT, "--ps_listen: '%s' is no address: host:port is",
                       o->ps_listen);
    s.checkpoints = train_checkpoints_dir(&a, o);
    struct ps_server_options options = {
        .name = c->name,
        .address = o->ps_listen ? o->ps_listen : c->addresses[TRAIN_PS][c->index],
        .index = c->index,
        .store = {&s, begin, plain, rows, ready, settle, restored, first},
        .workers = workers_name(&a, c),
        .worker_count = c->trainers,
        .cluster = c->id,
        .setting_names = names,
        .dir = o->ps_dir ? ty_format(&a, "%s/%zu", o->ps_dir, c->index)
                         : ty_format(&a, "%s/ps/%zu", o->output_dir, c->index),
        .trace = o->ps_trace ? ty_format(&a, "%s.ps-%zu", o->ps_trace, c->index) : NULL,
        .staleness = o->bounded ? o->staleness : -1,
        .give_up_ms = train_ps_wait_ms(o),
        .log_bytes = LOG_BYTES,
        .stopped = stopped};
    const struct train_identity id = train_identity(nn_net_model(n), 0, seed);
    train_ps_settings(o, &id, options.settings);
    const struct ps_variable *variables = train_ps_variables(&a, n, optimizer, &count);
    ps_layout_init(&options.layout, variables, count, c->counts[TRAIN_PS]);
    if (!o->quiet) {
        printf("%s: parameter_server, at %s, with its state in %s\n", c->name, options.address,
               options.dir);
        fflush(stdout);
    }
    ty_err err = ps_server_run(&options, &traffic);
    if (err == TY_OK && !o->quiet)
        train_replica_report(c, 0, traffic.sent, traffic.received);
    ty_arena_clear(&a);
    return err;
}

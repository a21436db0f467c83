/* optimizer.c -- one step of each optimizer for all parameters; rows of tables wait for theirs.
 *
 * Keras updates every row of an embedding at every step: m and v of Adam decay, and what is left of
 * m still moves the weights. A row that never had a gradient has m = v = 0 and stays as it is. A
 * row that had one does in an idle step what depends on nothing but itself and the step's rate, so
 * it may do its idle steps later: `last` says up to which step a row is up to date, `rates` are the
 * rates of the steps since all rows were. train_optimizer_ready brings those up to date that this
 * process reads of the next batch, a step those that have a gradient; bit for bit it is as if all
 * had been, all the time (the test optimizer/deferred_is_exact). With lazy: true idle steps do not
 * happen at all. */
#include "train/train_int.h"

#include <math.h>

enum { MOST_RATES = 1 << 16 }; /* then all rows are brought up to date */

struct rate {
    float rate;  /* of this step: Adam's alpha, else the learning rate */
    float plain; /* learning rate */
};
struct state {
    float *slots[TRAIN_SLOTS];
    uint32_t *last; /* tables: rows are as after this step; 0: never had a gradient */
};
typedef void step_fn(const struct nn_optimizer *k, float *w, float *const *slots, const float *g,
                     size_t count, const struct rate *r);
typedef void idle_fn(const struct nn_optimizer *k, float *w, float *const *slots, size_t count,
                     const struct rate *rates, size_t steps);
struct kind {
    const char *name;
    const char *slots[TRAIN_SLOTS];
    step_fn *step;
    idle_fn *idle;
};
struct train_optimizer {
    struct nn_net *net;
    struct nn_param *params;
    size_t param_count;
    const struct nn_optimizer *settings[2]; /* plain, wide */
    const struct kind *kinds[2];
    int64_t run_steps, steps;
    struct state *states; /* by parameter */
    float *block;
    struct rate (*rates)[2]; /* of steps settled + 1 ... steps, plain and wide */
    int64_t settled;
    struct ty_arena arena;
};

/* ---- the kinds ---- */

static void sgd_step(const struct nn_optimizer *k, float *w, float *const *slots, const float *g,
                     size_t count, const struct rate *r)
{
    if (k->momentum > 0)
        tensor_momentum(w, slots[0], g, count, r->rate, k->momentum, k->nesterov);
    else
        tensor_axpy(-r->rate, g, w, count);
}

static void sgd_idle(const struct nn_optimizer *k, float *w, float *const *slots, size_t count,
                     const struct rate *rates, size_t steps)
{
    for (size_t s = 0; s < steps && k->momentum > 0; s++, rates += 2)
        for (size_t i = 0; i < count; i++) {
            slots[0][i] *= k->momentum;
            w[i] += k->nesterov ? k->momentum * slots[0][i] : slots[0][i];
        }
}

static void adam_step(const struct nn_optimizer *k, float *w, float *const *slots, const float *g,
                      size_t count, const struct rate *r)
{
    tensor_adam(w, slots[0], slots[1], g, count, r->rate, k->beta1, k->beta2, k->epsilon);
}

static void adam_idle(const struct nn_optimizer *k, float *w, float *const *slots, size_t count,
                      const struct rate *rates, size_t steps)
{
    for (size_t s = 0; s < steps; s++, rates += 2)
        tensor_adam_idle(w, slots[0], slots[1], count, rates->rate, k->beta1, k->beta2, k->epsilon);
}

static void adagrad_step(const struct nn_optimizer *k, float *w, float *const *slots,
                         const float *g, size_t count, const struct rate *r)
{
    tensor_adagrad(w, slots[0], g, count, r->rate, k->epsilon);
}

static void rmsprop_step(const struct nn_optimizer *k, float *w, float *const *slots,
                         const float *g, size_t count, const struct rate *r)
{
    tensor_rmsprop(w, slots[0], k->momentum > 0 ? slots[1] : NULL, g, count, r->rate, k->rho,
                   k->momentum, k->epsilon);
}

static void rmsprop_idle(const struct nn_optimizer *k, float *w, float *const *slots, size_t count,
                         const struct rate *rates, size_t steps)
{
    for (size_t s = 0; s < steps; s++, rates += 2)
        for (size_t i = 0; i < count; i++) {
            slots[0][i] *= k->rho;
            if (k->momentum > 0)
                w[i] -= slots[1][i] *= k->momentum;
        }
}

static void ftrl_step(const struct nn_optimizer *k, float *w, float *const *slots, const float *g,
                      size_t count, const struct rate *r)
{
    tensor_ftrl(w, slots[0], slots[1], g, count, r->rate, k->power, k->l1, k->l2);
}

static const struct kind KINDS[] = {
#define OPTIMIZER(name, first, second, step, idle, ...) {#name, {first, second}, step, idle},
#include "nn/optimizers.def"
#undef OPTIMIZER
};

static const struct kind *kind_find(ty_str name)
{
    for (size_t i = 0; i < TY_COUNT(KINDS); i++)
        if (ty_str_is(name, KINDS[i].name))
            return &KINDS[i];
    ty_assert(false); /* the model file was checked by the same table */
    return NULL;
}

/* ---- learning rates ---- */

/* Keras counts steps from 0 for schedules and from 1 for Adam. */
static struct rate rate_of(const struct train_optimizer *o, int part, int64_t step, float scale)
{
    const struct nn_optimizer *k = o->settings[part];
    float steps = (float)(k->decay_steps > 0 ? k->decay_steps : o->run_steps);
    float done = (float)(step - 1) / (steps > 0 ? steps : 1), lr = k->learning_rate;
    if (k->schedule == NN_EXPONENTIAL)
        lr *= powf(k->decay_rate, done);
    else if (k->schedule == NN_STEP)
        lr *= powf(k->decay_rate, floorf(done));
    else if (k->schedule == NN_COSINE)
        lr *= (1 - k->decay_rate) * 0.5f * (1 + cosf((float)M_PI * (done < 1 ? done : 1))) +
              k->decay_rate;
    lr *= scale;
    struct rate r = {.rate = lr, .plain = lr};
    if (o->kinds[part]->step == adam_step)
        r.rate = lr * sqrtf(1 - powf(k->beta2, (float)step)) / (1 - powf(k->beta1, (float)step));
    return r;
}

/* ---- life ---- */

static bool slot_used(const struct train_optimizer *o, int part, size_t i)
{
    const struct kind *k = o->kinds[part];
    bool momentum = o->settings[part]->momentum > 0;
    return k->slots[i] != NULL && (strcmp(k->slots[i], "momentum") != 0 || momentum);
}

static void states_plan(struct train_optimizer *o)
{
    size_t floats = 0;
    for (size_t i = 0; i < o->param_count; i++)
        floats += TRAIN_SLOTS * ((o->params[i].count + 15) / 16 * 16);
    o->block = calloc(floats + 16, sizeof *o->block);
    o->states = ty_new_array(&o->arena, struct state, o->param_count);
    ty_assert(o->block);
    float *at = (float *)(((uintptr_t)o->block + 63) / 64 * 64);
    for (size_t i = 0; i < o->param_count; i++) {
        const struct nn_param *p = &o->params[i];
        struct state *s = &o->states[i];
        for (size_t k = 0; k < TRAIN_SLOTS && !p->frozen; k++) {
            if (!slot_used(o, p->wide, k))
                continue;
            s->slots[k] = at;
            at += (p->count + 15) / 16 * 16;
            for (size_t e = 0; k == 0 && o->settings[p->wide]->initial > 0 && e < p->count; e++)
                s->slots[k][e] = o->settings[p->wide]->initial;
        }
        if (p->table)
            s->last = ty_new_array(&o->arena, uint32_t, (size_t)p->shape.dims[0]);
    }
}

struct train_optimizer *train_optimizer_new(struct nn_net *n, int64_t steps)
{
    const struct nn_training *t = &nn_net_model(n)->training;
    struct train_optimizer *o = calloc(1, sizeof *o);
    ty_assert(o);
    o->net = n;
    o->param_count = nn_net_params(n, &o->params);
    o->settings[0] = &t->optimizer;
    o->settings[1] = &t->wide;
    o->run_steps = steps;
    for (int i = 0; i < 2; i++)
        o->kinds[i] = kind_find(o->settings[i]->kind);
    o->rates = ty_alloc_array(&o->arena, MOST_RATES, sizeof *o->rates);
    states_plan(o);
    return o;
}

ty_err train_optimizer_unite(struct train_optimizer *o)
{
    ty_err err = nn_net_unite(o->net);
    for (size_t i = 0; i < o->param_count; i++)
        for (size_t k = 0; k < TRAIN_SLOTS && err == TY_OK && o->params[i].united; k++)
            if (o->states[i].slots[k])
                err = nn_net_unite_array(o->net, o->params[i].count, &o->states[i].slots[k]);
    return err;
}

void train_optimizer_free(struct train_optimizer *o)
{
    if (o == NULL)
        return;
    free(o->block);
    ty_arena_clear(&o->arena);
    free(o);
}

int64_t train_optimizer_steps(const struct train_optimizer *o)
{
    return o->steps;
}

float *train_optimizer_slot(struct train_optimizer *o, size_t param, size_t i,
                            const char **ret_name)
{
    *ret_name = o->kinds[o->params[param].wide]->slots[i];
    return o->states[param].slots[i];
}

static bool row_is_new(const struct nn_param *p, const struct state *s, size_t row)
{
    for (size_t k = 0; k < TRAIN_SLOTS; k++)
        for (size_t i = 0; s->slots[k] && i < p->width; i++)
            if (s->slots[k][row * p->width + i] != 0)
                return false;
    return true;
}

/* A row whose state is 0 never had a gradient, or is as if it never had. */
void train_optimizer_restored(struct train_optimizer *o, int64_t steps)
{
    o->steps = o->settled = steps;
    for (size_t i = 0; i < o->param_count; i++) {
        const struct nn_param *p = &o->params[i];
        for (size_t row = 0; p->table && row < (size_t)p->shape.dims[0]; row++)
            o->states[i].last[row] = row_is_new(p, &o->states[i], row) ? 0 : (uint32_t)steps;
    }
}

/* ---- rows that wait ---- */

static bool waits(const struct train_optimizer *o, const struct nn_param *p)
{
    return p->table && o->kinds[p->wide]->idle != NULL && !o->settings[p->wide]->lazy;
}

/* The idle steps of a row up to the one of that number. */
static void row_catch_up(struct train_optimizer *o, size_t param, size_t row, int64_t to)
{
    const struct nn_param *p = &o->params[param];
    struct state *s = &o->states[param];
    int64_t last = s->last[row];
    if (last == 0 || last >= to)
        return;
    float *slots[TRAIN_SLOTS];
    for (size_t k = 0; k < TRAIN_SLOTS; k++)
        slots[k] = s->slots[k] ? s->slots[k] + row * p->width : NULL;
    o->kinds[p->wide]->idle(o->settings[p->wide], p->data + row * p->width, slots, p->width,
                            &o->rates[last - o->settled][p->wide], (size_t)(to - last));
    s->last[row] = (uint32_t)to;
}

void train_optimizer_rows_ready(struct train_optimizer *o, size_t param, const uint32_t *rows,
                                size_t count)
{
    for (size_t i = 0; i < count && waits(o, &o->params[param]); i++)
        row_catch_up(o, param, rows[i], o->steps);
}

void train_optimizer_ready(struct train_optimizer *o, const struct nn_batch *b)
{
    const struct nn_rows *rows = b->rows;
    size_t first, count = nn_net_own(o->net, b->count, &first);
    for (size_t i = 0; i < o->param_count; i++) {
        const struct nn_param *p = &o->params[i];
        if (!waits(o, p))
            continue;
        for (size_t k = first; k < first + count; k++) {
            size_t pick = b->pick ? b->pick[k] : b->first + k;
            int32_t id = rows->ids[pick * rows->ids_each + p->id_slot];
            if (id >= 0)
                row_catch_up(o, i, (size_t)id, o->steps);
        }
    }
}

void train_optimizer_settle(struct train_optimizer *o)
{
    for (size_t i = 0; i < o->param_count; i++)
        for (size_t row = 0; waits(o, &o->params[i]) && row < (size_t)o->params[i].shape.dims[0];
             row++)
            row_catch_up(o, i, row, o->steps);
    o->settled = o->steps;
}

/* ---- a step ---- */

/* Rows do the idle steps before this one first: other ranks read some of them, and of a parameter
 * server others may have made steps since they were read. */
static void rows_step(struct train_optimizer *o, size_t param, const uint32_t *rows, size_t count,
                      const float *grad, const struct rate *r)
{
    const struct nn_param *p = &o->params[param];
    struct state *s = &o->states[param];
    float *slots[TRAIN_SLOTS];
    bool deferred = waits(o, p);
    for (size_t i = 0; i < count; i++) {
        size_t row = rows[i];
        if (deferred)
            row_catch_up(o, param, row, o->steps - 1);
        for (size_t k = 0; k < TRAIN_SLOTS; k++)
            slots[k] = s->slots[k] ? s->slots[k] + row * p->width : NULL;
        o->kinds[p->wide]->step(o->settings[p->wide], p->data + row * p->width, slots,
                                grad + i * p->width, p->width, r);
        s->last[row] = (uint32_t)o->steps;
    }
}

/* Scale all gradients so that their norm together is at most `most`. */
static void clip(struct train_optimizer *o, float most)
{
    double sum = 0;
    for (int scale = 0; scale < 2; scale++) {
        float norm = (float)sqrt(sum);
        if (scale && norm <= most)
            return;
        for (size_t i = 0; i < o->param_count; i++) {
            const struct nn_param *p = &o->params[i];
            size_t count = p->table ? p->row_count * p->width : p->count;
            for (size_t k = 0; k < count && !p->frozen; k++) {
                if (scale)
                    p->grad[k] *= most / norm;
                else
                    sum += (double)p->grad[k] * (double)p->grad[k];
            }
        }
    }
}

static void decay(const struct nn_optimizer *k, float *w, size_t count, float lr)
{
    for (size_t i = 0; i < count; i++)
        w[i] -= w[i] * k->weight_decay * lr;
}

static void range_step(const struct train_optimizer *o, size_t param, size_t from, size_t count,
                       const float *grad, const struct rate *rate)
{
    const struct nn_param *p = &o->params[param];
    const struct nn_optimizer *k = o->settings[p->wide];
    float *slots[TRAIN_SLOTS];
    for (size_t i = 0; i < TRAIN_SLOTS; i++) {
        float *all = o->states[param].slots[i];
        slots[i] = all ? all + from : NULL;
    }
    if (k->weight_decay > 0)
        decay(k, p->data + from, count, rate->plain);
    o->kinds[p->wide]->step(k, p->data + from, slots, grad, count, rate);
}

/* Numbers [from, from + count) of a plain parameter, cut into `parts` for the team; each element
 * has its own step. */
struct plain_step {
    const struct train_optimizer *o;
    size_t param, from, count;
    int parts;
    const struct rate *rate;
};

static void plain_run(void *arg, int index)
{
    const struct plain_step *s = arg;
    const struct nn_param *p = &s->o->params[s->param];
    size_t begin = s->count * (size_t)index / (size_t)s->parts, from = s->from + begin;
    size_t count = s->count * ((size_t)index + 1) / (size_t)s->parts - begin;
    nn_flush_denormals();
    range_step(s->o, s->param, from, count, p->grad + from, s->rate);
}

/* What this rank updates of it. Little is done before another thread would wake up. */
static void plain_step(const struct train_optimizer *o, size_t param, const struct rate *rate)
{
    enum { ALONE_FLOATS = 1 << 16 };
    struct tensor_team *team = nn_net_team(o->net);
    struct plain_step s = {.o = o, .param = param, .parts = 1, .rate = rate};
    s.count = nn_net_slice(o->net, &o->params[param], &s.from);
    if (s.count >= ALONE_FLOATS)
        s.parts = tensor_team_threads(team);
    if (s.parts == 1)
        plain_run(&s, 0);
    else
        tensor_team_run(team, plain_run, &s, s.parts);
}

static const struct rate *rates_now(const struct train_optimizer *o)
{
    return o->rates[o->steps - o->settled - 1];
}

void train_optimizer_begin(struct train_optimizer *o, float scale)
{
    if (o->steps - o->settled == MOST_RATES)
        train_optimizer_settle(o);
    o->steps++;
    for (int part = 0; part < 2; part++)
        o->rates[o->steps - o->settled - 1][part] = rate_of(o, part, o->steps, scale);
}

void train_optimizer_clip(struct train_optimizer *o)
{
    float most = nn_net_model(o->net)->training.clip_norm;
    if (most > 0)
        clip(o, most);
}

void train_optimizer_step(struct train_optimizer *o, float scale)
{
    train_optimizer_begin(o, scale);
    train_optimizer_clip(o);
    const struct rate *rates = rates_now(o);
    for (size_t i = 0; i < o->param_count; i++) {
        const struct nn_param *p = &o->params[i];
        if (p->table && !p->frozen)
            rows_step(o, i, p->rows, p->row_count, p->grad, &rates[p->wide]);
        else if (!p->frozen)
            plain_step(o, i, &rates[p->wide]);
    }
    nn_net_updated(o->net);
}

/* ---- a step in parts, by a parameter server ---- */

void train_optimizer_apply(struct train_optimizer *o, size_t param, size_t from, size_t count,
                           const float *grad)
{
    const struct nn_param *p = &o->params[param];
    if (p->frozen)
        tensor_axpy(1.0f, grad, p->data + from, count);
    else
        range_step(o, param, from, count, grad, &rates_now(o)[p->wide]);
}

void train_optimizer_apply_rows(struct train_optimizer *o, size_t param, const uint32_t *rows,
                                size_t count, const float *grad)
{
    rows_step(o, param, rows, count, grad, &rates_now(o)[o->params[param].wide]);
}

void train_optimizer_run_steps(struct train_optimizer *o, int64_t steps)
{
    o->run_steps = steps;
}

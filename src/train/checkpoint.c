/* checkpoint.c -- all that a run needs to go on as if it had never stopped, as TensorFlow bundles.
 *
 *   checkpoints/ckpt-120.data-00000-of-00001   values, one after another
 *   checkpoints/ckpt-120.index                 names, shapes, places, checksums
 *   checkpoints/checkpoint                     which there are, newest last; as TensorFlow's
 *   checkpoints/checkpoint.before              the same of an earlier run, until this one has its
 * own
 *
 * Tensors: parameters by their names, optimizer/NAME/SLOT, and trainyard/state, trainyard/metrics
 * (doubles), trainyard/measured/NAME (mean and deviation of a normalise feature), trainyard/run (a
 * string: what run this is).
 *
 * C1  The data file is on disk before its index exists; the index before `checkpoint` names it. So
 *     what is named is whole, whenever the process ends. Both are written as NAME.tmp: a full disk
 *     takes nothing that was there, and leaves nothing.
 * C2  Reading checks every checksum; one that fails is passed over for the one before it.
 * C3  A run that begins anew sets an earlier one's list aside: nothing goes on from it. Its files
 * go after the first checkpoint of the new run is in the list; if that run fails before, the list
 *     is put back. Files of other names are nobody's but the user's. */
#include "train/train_int.h"

#include <math.h>

enum { STATE_DOUBLES = 7, NAMES_BYTES = 1 << 16, INDEX_BYTES = 1 << 26, MOST_KEPT = 1024 };
static const char DATA[] = ".data-00000-of-00001", DATA_TMP[] = ".data-00000-of-00001.tmp";

/* ---- writing ---- */

struct writer {
    struct ty_arena arena;
    struct bundle_writer bundle;
    int fd;
    ty_err err;
};

static void writer_add(struct writer *w, const char *name, enum dtype t, struct shape s,
                       const void *values, size_t bytes)
{
    ty_str text = {values, bytes};
    if (w->err == TY_OK)
        w->err = bundle_add(&w->bundle, ty_str_of(name), t, &s, text);
    if (w->err == TY_OK)
        w->err = ty_write_all(w->fd, values, bytes);
}

static void state_to(const struct train_state *s, double out[STATE_DOUBLES])
{
    const double values[STATE_DOUBLES] = {
        (double)s->step,       (double)s->epoch, s->best_loss,           (double)s->best_epoch,
        (double)s->bad_epochs, s->rate_scale,    s->finished ? 1.0 : 0.0};
    memcpy(out, values, sizeof values);
}

/* A count as it was written, or -1: a cast of anything else would be undefined. */
static int64_t count_from(double x)
{
    return x >= 0 && x <= (double)UINT32_MAX ? (int64_t)x : -1;
}

static ty_err state_from(const double in[STATE_DOUBLES], struct train_state *s)
{
    struct train_state read = {.step = count_from(in[0]),
                               .epoch = count_from(in[1]),
                               .best_loss = in[2],
                               .best_epoch = count_from(in[3]),
                               .bad_epochs = count_from(in[4]),
                               .rate_scale = in[5],
                               .finished = in[6] != 0};
    if (read.step < 0 || read.epoch < 0 || read.best_epoch < 0 || read.bad_epochs < 0 ||
        !(read.rate_scale >= 0 && read.rate_scale <= 1))
        return ty_fail(TY_DATA_LOSS, "trainyard/state makes no sense");
    *s = read;
    return TY_OK;
}

static void run_add(struct writer *w, const struct train_checkpoints *c)
{
    struct ty_buf b;
    ty_str id = ty_str_of(train_identity_text(&w->arena, &c->run));
    ty_buf_init(&b, 1000);
    if (w->err == TY_OK)
        w->err = bundle_add_strings(&w->bundle, TY_STR("trainyard/run"), &SHAPE_SCALAR, &id, &b);
    if (w->err == TY_OK)
        w->err = ty_write_all(w->fd, b.ptr, b.len);
    ty_buf_clear(&b);
}

static void values_write(struct writer *w, const struct train_checkpoints *c, struct nn_net *n,
                         struct train_optimizer *o, const struct metrics *m,
                         const struct train_state *s)
{
    struct nn_param *params;
    size_t count = nn_net_params(n, &params);
    double state[STATE_DOUBLES];
    state_to(s, state);
    run_add(w, c);
    writer_add(w, "trainyard/state", DTYPE_DOUBLE, SHAPE(STATE_DOUBLES), state, sizeof state);
    const struct nn_model *model = nn_net_model(n);
    for (size_t i = model->column_count; i < model->value_count; i++) {
        const struct nn_value *v = &model->values[i];
        const float pair[2] = {v->subtract, v->divide};
        if (v->measured)
            writer_add(w, ty_format(&w->arena, "trainyard/measured/%s", v->name.ptr), DTYPE_FLOAT,
                       SHAPE(2), pair, sizeof pair);
    }
    for (size_t i = 0; i < m->count; i++)
        writer_add(w, ty_format(&w->arena, "trainyard/metrics/%s", m->list[i].name), DTYPE_DOUBLE,
                   SHAPE(METRIC_DOUBLES), m->list[i].sums, sizeof m->list[i].sums);
    for (size_t i = 0; i < count; i++) {
        const struct nn_param *p = &params[i];
        writer_add(w, p->name.ptr, DTYPE_FLOAT, p->shape, p->data, p->count * sizeof(float));
        for (size_t k = 0; k < TRAIN_SLOTS; k++) {
            const char *slot;
            const float *values = train_optimizer_slot(o, i, k, &slot);
            if (values != NULL)
                writer_add(w, ty_format(&w->arena, "optimizer/%s/%s", p->name.ptr, slot),
                           DTYPE_FLOAT, p->shape, values, p->count * sizeof(float));
        }
    }
}

static ty_err temporary_open(const char *path, int *ret_fd)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot write '%s'", path);
    *ret_fd = fd;
    return TY_OK;
}

static ty_err index_write(struct writer *w, const char *path)
{
    struct ty_buf index;
    int fd = -1;
    ty_buf_init(&index, INDEX_BYTES);
    ty_err err = bundle_index(&w->bundle, &index);
    if (err == TY_OK)
        err = ty_buf_check(&index, "the checkpoint's index");
    if (err == TY_OK)
        err = temporary_open(path, &fd);
    if (err == TY_OK)
        err = ty_write_all(fd, index.ptr, index.len);
    if (err == TY_OK)
        err = ty_sync(fd);
    if (fd >= 0)
        close(fd);
    ty_buf_clear(&index);
    return err;
}

/* Both files are whole and on disk: give them their names. An index of that name would be of other
 * data, and goes first: a run may come to a step twice. `checkpoint`, written next, syncs the
 * folder. */
static ty_err bundle_name(const char *const temporary[2], const char *const final[2])
{
    ty_err err = output_unlink(final[1]);
    for (size_t i = 0; i < 2 && err == TY_OK; i++)
        err = ty_rename_at(AT_FDCWD, temporary[i], final[i]);
    return err;
}

/* ---- the list of checkpoints ---- */

/* Names in `checkpoint`, oldest first. */
static size_t names_read(struct ty_arena *a, const char *dir, const char *names[MOST_KEPT])
{
    static const char key[] = "all_model_checkpoint_paths: \"";
    ty_str text, line;
    size_t count = 0;
    if (ty_file_read(AT_FDCWD, ty_format(a, "%s/checkpoint", dir), NAMES_BYTES, a, &text) != TY_OK)
        return 0;
    for (bool more = true; more && count < MOST_KEPT;) {
        more = ty_str_split(&text, '\n', &line);
        if (!ty_str_starts(line, ty_str_of(key)) || line.len <= sizeof key)
            continue;
        ty_str name = {line.ptr + sizeof key - 1, line.len - sizeof key};
        if (memchr(name.ptr, '/', name.len) == NULL)
            names[count++] = ty_cstr(a, name);
    }
    return count;
}

static ty_err names_write(struct ty_arena *a, const char *dir, const char *const *names,
                          size_t count)
{
    struct ty_buf b;
    ty_buf_init(&b, NAMES_BYTES);
    ty_buf_addf(&b, "model_checkpoint_path: \"%s\"\n", names[count - 1]);
    for (size_t i = 0; i < count; i++)
        ty_buf_addf(&b, "all_model_checkpoint_paths: \"%s\"\n", names[i]);
    ty_err err = ty_buf_check(&b, "the list of checkpoints");
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/checkpoint", dir), ty_buf_str(&b), 0644);
    ty_buf_clear(&b);
    return err;
}

/* How long the name of the checkpoint is whose file this is; 0: it is none of ours. */
static size_t name_length(const char *file)
{
    static const char *const suffixes[] = {".index", DATA, ".index.tmp", DATA_TMP};
    size_t n = strncmp(file, "best", 4) == 0 ? 4 : 0;
    if (strncmp(file, "ckpt-", 5) == 0 && strspn(file + 5, "0123456789") > 0)
        n = 5 + strspn(file + 5, "0123456789");
    for (size_t i = 0; i < TY_COUNT(suffixes) && n > 0; i++)
        if (strcmp(file + n, suffixes[i]) == 0)
            return n;
    return 0;
}

struct pruning {
    struct ty_arena *arena;
    const char *dir;
    const char *const *names;
    size_t count;
    bool best; /* stays */
};

static ty_err file_prune(void *arg, const char *file)
{
    const struct pruning *p = arg;
    size_t n = name_length(file);
    bool kept = n == 0 || (p->best && strncmp(file, "best", 4) == 0);
    for (size_t i = 0; i < p->count && !kept; i++)
        kept = strlen(p->names[i]) == n && memcmp(p->names[i], file, n) == 0;
    return kept ? TY_OK : output_unlink(ty_format(p->arena, "%s/%s", p->dir, file));
}

/* Add a name to the list; files that are not in it go: old ones, and what a crash left. */
static ty_err listed(struct ty_arena *a, const struct train_checkpoints *c, const char *name)
{
    const char *names[MOST_KEPT + 1];
    size_t count = names_read(a, c->dir, names), kept = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) != 0)
            names[kept++] = names[i];
    names[kept++] = name;
    size_t first = kept > (size_t)c->keep ? kept - (size_t)c->keep : 0;
    ty_err err = names_write(a, c->dir, names + first, kept - first);
    struct pruning p = {a, c->dir, names + first, kept - first, true};
    return err == TY_OK ? output_list(c->dir, file_prune, &p) : err;
}

ty_err train_checkpoint_save(struct train_checkpoints *c, struct nn_net *n,
                             struct train_optimizer *o, const struct metrics *m,
                             const struct train_state *s, const char *name)
{
    struct writer w = {.fd = -1};
    train_optimizer_settle(o);
    bool numbered = name == NULL;
    if (numbered)
        name = ty_format(&w.arena, "ckpt-%" PRId64, s->step);
    const char *prefix = ty_format(&w.arena, "%s/%s", c->dir, name);
    const char *final[2] = {ty_format(&w.arena, "%s%s", prefix, DATA),
                            ty_format(&w.arena, "%s.index", prefix)};
    const char *temporary[2] = {ty_format(&w.arena, "%s%s", prefix, DATA_TMP),
                                ty_format(&w.arena, "%s.index.tmp", prefix)};
    bundle_writer_init(&w.bundle, &w.arena);
    ty_err err = ty_mkdirs(c->dir, 0755);
    if (err == TY_OK)
        err = temporary_open(temporary[0], &w.fd);
    if (err == TY_OK) {
        values_write(&w, c, n, o, m, s);
        err = w.err == TY_OK ? ty_sync(w.fd) : w.err;
        close(w.fd);
    }
    if (err == TY_OK)
        err = index_write(&w, temporary[1]);
    if (err == TY_OK)
        err = bundle_name(temporary, final);
    for (size_t i = 0; i < 2 && err != TY_OK; i++)
        unlink(temporary[i]);
    c->has_best |= err == TY_OK && !numbered;
    if (err == TY_OK && numbered)
        err = listed(&w.arena, c, name);
    if (err != TY_OK)
        err = ty_wrap(err, "checkpoint '%s'", name);
    ty_arena_clear(&w.arena);
    return err;
}

/* ---- another run's ---- */

ty_err train_checkpoints_set_aside(const struct train_checkpoints *c)
{
    struct ty_arena a = {0};
    ty_err err = TY_OK;
    const char *list = ty_format(&a, "%s/checkpoint", c->dir);
    if (access(list, F_OK) == 0)
        err = ty_rename_at(AT_FDCWD, list, ty_format(&a, "%s.before", list));
    ty_arena_clear(&a);
    return err;
}

ty_err train_checkpoints_put_back(const struct train_checkpoints *c)
{
    struct ty_arena a = {0};
    ty_err err = TY_OK;
    const char *list = ty_format(&a, "%s/checkpoint", c->dir);
    const char *before = ty_format(&a, "%s.before", list);
    if (access(list, F_OK) != 0 && access(before, F_OK) == 0)
        err = ty_rename_at(AT_FDCWD, before, list);
    ty_arena_clear(&a);
    return err;
}

ty_err train_checkpoints_forget(const struct train_checkpoints *c)
{
    struct ty_arena a = {0};
    const char *names[MOST_KEPT];
    struct pruning p = {&a, c->dir, names, names_read(&a, c->dir, names), c->has_best};
    ty_err err = output_list(c->dir, file_prune, &p);
    if (err == TY_OK)
        err = output_unlink(ty_format(&a, "%s/checkpoint.before", c->dir));
    ty_arena_clear(&a);
    return err;
}

const char *train_checkpoints_dir(struct ty_arena *a, const struct train_options *o)
{
    if (o->checkpoint_dir || o->output_dir == NULL)
        return o->checkpoint_dir;
    return ty_format(a, "%s/checkpoints", o->output_dir);
}

/* ---- reading ---- */

struct opened {
    struct ty_arena arena;
    struct bundle bundle;
    ty_str data;
};

static ty_err opened_init(struct opened *b, const char *prefix)
{
    ty_str index;
    ty_err err = ty_file_read(AT_FDCWD, ty_format(&b->arena, "%s.index", prefix), INDEX_BYTES,
                              &b->arena, &index);
    if (err == TY_OK)
        err = bundle_open(&b->arena, index, &b->bundle);
    if (err == TY_OK)
        err = train_file_read(ty_format(&b->arena, "%s%s", prefix, DATA), &b->data);
    return err == TY_OK ? TY_OK : ty_wrap(err, "checkpoint '%s'", prefix);
}

static void opened_clear(struct opened *b)
{
    train_file_free(b->data);
    ty_arena_clear(&b->arena);
}

static ty_err values_read(const struct opened *b, const char *name, enum dtype t, void *to,
                          size_t bytes)
{
    const struct bundle_entry *e;
    ty_str value;
    ty_err err = bundle_find(&b->bundle, ty_str_of(name), &e);
    if (err != TY_OK)
        return err;
    if (e->dtype != t || e->size_bytes != bytes)
        return ty_fail(TY_INVALID_ARGUMENT, "tensor '%s' has another type or size", name);
    err = bundle_tensor(e, b->data, &value);
    if (err == TY_OK)
        memcpy(to, value.ptr, bytes);
    return err == TY_OK ? TY_OK : ty_wrap(err, "tensor '%s'", name);
}

static ty_err run_check(struct opened *b, const struct train_checkpoints *c)
{
    const struct bundle_entry *e;
    ty_str *id;
    size_t count;
    ty_err err = bundle_find(&b->bundle, TY_STR("trainyard/run"), &e);
    if (err == TY_OK)
        err = bundle_strings(&b->arena, e, b->data, &id, &count);
    if (err != TY_OK)
        return err;
    ty_str text = count == 1 ? id[0] : (ty_str){0};
    return c->run_sum ? train_identity_check_sum(c->run_sum, text)
                      : train_identity_check(&b->arena, &c->run, text);
}

/* They were measured again before: of the same data they are the same. */
static ty_err measured_check(struct opened *b, const struct nn_model *m)
{
    ty_err err = TY_OK;
    for (size_t i = m->column_count; i < m->value_count && err == TY_OK; i++) {
        const struct nn_value *v = &m->values[i];
        const float pair[2] = {v->subtract, v->divide};
        float was[2];
        if (!v->measured)
            continue;
        err = values_read(b, ty_format(&b->arena, "trainyard/measured/%s", v->name.ptr),
                          DTYPE_FLOAT, was, sizeof was);
        if (err == TY_OK && (was[0] != pair[0] || was[1] != pair[1]))
            err = ty_fail(TY_FAILED_PRECONDITION,
                          "'%s' had the mean %g and the deviation %g and now has %g and %g: the "
                          "data is another; leave out --resume to begin anew",
                          v->name.ptr, (double)was[0], (double)was[1], (double)pair[0],
                          (double)pair[1]);
    }
    return err;
}

static ty_err all_read(struct opened *b, const struct train_checkpoints *c, struct nn_net *n,
                       struct train_optimizer *o, struct metrics *m, struct train_state *s)
{
    struct nn_param *params;
    size_t count = nn_net_params(n, &params);
    double state[STATE_DOUBLES];
    ty_err err = run_check(b, c);
    if (err == TY_OK && c->run_sum == 0)
        err = measured_check(b, nn_net_model(n));
    if (err == TY_OK)
        err = values_read(b, "trainyard/state", DTYPE_DOUBLE, state, sizeof state);
    for (size_t i = 0; i < m->count && err == TY_OK; i++)
        err = values_read(b, ty_format(&b->arena, "trainyard/metrics/%s", m->list[i].name),
                          DTYPE_DOUBLE, m->list[i].sums, sizeof m->list[i].sums);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        const struct nn_param *p = &params[i];
        err = values_read(b, p->name.ptr, DTYPE_FLOAT, p->data, p->count * sizeof(float));
        for (size_t k = 0; k < TRAIN_SLOTS && err == TY_OK; k++) {
            const char *slot;
            float *values = train_optimizer_slot(o, i, k, &slot);
            if (values != NULL)
                err = values_read(b, ty_format(&b->arena, "optimizer/%s/%s", p->name.ptr, slot),
                                  DTYPE_FLOAT, values, p->count * sizeof(float));
        }
    }
    if (err == TY_OK)
        err = state_from(state, s);
    if (err != TY_OK)
        return err;
    train_optimizer_restored(o, s->step);
    return TY_OK;
}

static ty_err prefix_read(const char *prefix, const struct train_checkpoints *c, struct nn_net *n,
                          struct train_optimizer *o, struct metrics *m, struct train_state *s)
{
    struct opened b = {0};
    ty_err err = opened_init(&b, prefix);
    if (err == TY_OK) {
        err = all_read(&b, c, n, o, m, s);
        if (err != TY_OK)
            err = ty_wrap(err, "checkpoint '%s'", prefix);
    }
    opened_clear(&b);
    return err;
}

ty_err train_checkpoint_after(const struct train_checkpoints *c, struct nn_net *n,
                              struct train_optimizer *o, struct metrics *m, struct train_state *s,
                              int64_t step)
{
    struct ty_arena a = {0};
    const char *names[MOST_KEPT];
    size_t count = names_read(&a, c->dir, names);
    ty_err err = TY_NOT_FOUND;
    for (size_t i = 0; i < count && err != TY_OK && err != TY_FAILED_PRECONDITION; i++) {
        int64_t at;
        if (strncmp(names[i], "ckpt-", 5) != 0 ||
            ty_parse_i64(ty_str_of(names[i] + 5), &at) != TY_OK || at <= step)
            continue;
        err = prefix_read(ty_format(&a, "%s/%s", c->dir, names[i]), c, n, o, m, s);
        if (err != TY_OK && err != TY_FAILED_PRECONDITION) /* gone by now, or torn */
            log_warn("checkpoint.skipped", "%s", ty_err_message());
    }
    ty_arena_clear(&a);
    if (err == TY_OK || err == TY_FAILED_PRECONDITION)
        return err;
    return ty_fail(TY_NOT_FOUND, "there is no checkpoint after step %" PRId64 " in '%s'", step,
                   c->dir);
}

ty_err train_checkpoint_load(const struct train_checkpoints *c, struct nn_net *n,
                             struct train_optimizer *o, struct metrics *m, struct train_state *s)
{
    struct ty_arena a = {0};
    const char *names[MOST_KEPT];
    size_t count = names_read(&a, c->dir, names);
    ty_err err = ty_fail(TY_NOT_FOUND, "there is no checkpoint in '%s'", c->dir);
    while (count-- > 0) {
        const char *prefix = ty_format(&a, "%s/%s", c->dir, names[count]);
        err = prefix_read(prefix, c, n, o, m, s);
        if (err == TY_OK || err == TY_FAILED_PRECONDITION)
            break;
        log_warn("checkpoint.skipped", "%s", ty_err_message());
    }
    ty_arena_clear(&a);
    return err;
}

ty_err train_weights_load(const char *prefix, struct nn_net *n, size_t *ret_count)
{
    struct opened b = {0};
    struct nn_param *params;
    size_t count = nn_net_params(n, &params), found = 0;
    ty_err err = opened_init(&b, prefix);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        err = values_read(&b, params[i].name.ptr, DTYPE_FLOAT, params[i].data,
                          params[i].count * sizeof(float));
        if (err == TY_OK)
            found++;
        else if (err == TY_NOT_FOUND)
            err = TY_OK;
    }
    opened_clear(&b);
    if (err == TY_OK && found == 0)
        err = ty_fail(TY_INVALID_ARGUMENT, "'%s' has no tensor of this model", prefix);
    *ret_count = found;
    return err;
}

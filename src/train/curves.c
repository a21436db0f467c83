/* curves.c -- TensorBoard's event files, as Keras's callback writes them: epoch_loss and epoch_*
 * of each metric, in train/ and validation/.
 *
 * A file stays open for the whole run, and whoever removes or moves the folder meanwhile would get
 * nothing more of it: so before each write the file is looked for by its name and, if it is not
 * there, begun again in a folder made again, with a warning the first time. */
#include "train/train_int.h"

enum { EVENT_BYTES = 1 << 26 };
static const char EVENTS[] = "events.out.tfevents.";

static double seconds_now(void)
{
    return (double)ty_now_ns() / 1e9;
}

static ty_err event_write(const struct curves *c, size_t which, struct ty_buf *b)
{
    ty_err err = ty_buf_check(b, "an event");
    if (err == TY_OK)
        err = ty_write_all(c->fd[which], b->ptr, b->len);
    ty_buf_clear(b);
    return err == TY_OK ? TY_OK : ty_wrap(err, "the curves in '%s'", c->dir);
}

/* The model's shape, for the Graphs tab. */
static ty_err graph_write(const struct curves *c)
{
    struct ty_arena a = {0};
    struct graph *g = graph_new(&a);
    struct saved_signature signature;
    struct ty_buf def, b;
    ty_err err = nn_export(c->net, &a, g, &signature);
    if (err == TY_OK) {
        ty_buf_init(&def, EVENT_BYTES);
        ty_buf_init(&b, EVENT_BYTES);
        graph_encode(g, &def);
        event_graph(&b, seconds_now(), ty_buf_str(&def));
        ty_buf_clear(&def);
        err = event_write(c, 0, &b);
    }
    ty_arena_clear(&a);
    return err;
}

static ty_err file_open(struct curves *c, size_t which)
{
    char host[200] = "localhost", file[EVENT_NAME_BYTES];
    struct ty_buf b;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    const char *folder = ty_format(&c->arena, "%s/%s", c->dir, c->name[which]);
    ty_err err = ty_mkdirs(folder, 0755);
    if (err != TY_OK)
        return err;
    event_file_name((int64_t)seconds_now(), host, getpid(), file);
    const char *path = ty_format(&c->arena, "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot write '%s'", path);
    c->fd[which] = fd;
    c->path[which] = path;
    ty_buf_init(&b, EVENT_BYTES);
    event_version(&b, seconds_now());
    err = event_write(c, which, &b);
    bool graph = which == 0 && nn_export_obstacle(nn_net_model(c->net)) == NULL;
    return err == TY_OK && graph ? graph_write(c) : err;
}

/* The file is not where it was: begin another one. */
static ty_err file_reopen(struct curves *c, size_t which)
{
    if (!c->told)
        log_warn("curves.gone",
                 "'%s' was removed or moved while the run writes there: it is made again and has "
                 "the curves from now on",
                 c->dir);
    c->told = true;
    close(c->fd[which]);
    c->fd[which] = -1;
    return file_open(c, which);
}

/* Clears the buffer. */
static ty_err append(struct curves *c, size_t which, struct ty_buf *b)
{
    ty_err err = output_is_still(c->fd[which], c->path[which]) ? TY_OK : file_reopen(c, which);
    if (err == TY_OK)
        return event_write(c, which, b);
    ty_buf_clear(b);
    return err;
}

ty_err curves_open(struct curves *c, const char *dir, bool validation, const struct nn_net *n)
{
    *c = (struct curves){.fd = {-1, -1},
                         .name = {"train", "validation"},
                         .dir = dir,
                         .net = n,
                         .opened_ns = ty_now_ns()};
    ty_err err = file_open(c, 0);
    if (err == TY_OK && validation)
        err = file_open(c, 1);
    if (err != TY_OK)
        curves_close(c);
    return err;
}

ty_err curves_open_eval(struct curves *c, const char *dir)
{
    *c = (struct curves){.fd = {-1, -1}, .name = {NULL, "eval"}, .dir = dir};
    ty_err err = file_open(c, 1);
    if (err != TY_OK)
        curves_close(c);
    return err;
}

ty_err curves_epoch(struct curves *c, int64_t epoch, const struct metrics *train,
                    const struct metrics *valid)
{
    const struct metrics *both[2] = {train, valid};
    ty_err err = TY_OK;
    for (size_t k = 0; k < 2 && err == TY_OK; k++) {
        if (c->fd[k] < 0 || both[k] == NULL)
            continue;
        struct ty_buf b;
        ty_buf_init(&b, EVENT_BYTES);
        for (size_t i = 0; i < both[k]->count; i++) {
            const struct metric *m = &both[k]->list[i];
            char tag[METRIC_NAME_BYTES + 10];
            snprintf(tag, sizeof tag, "epoch_%s", m->name);
            event_scalar(&b, seconds_now(), epoch, ty_str_of(tag), (float)metric_value(m));
        }
        err = append(c, k, &b);
    }
    return err;
}

ty_err curves_replicas(struct curves *c, int64_t epoch, const struct together *t)
{
    static const char *const names[] = {"data", "forward", "backward", "update", "wait"};
    struct ty_buf b;
    if (t->ranks == 0)
        return TY_OK;
    ty_buf_init(&b, EVENT_BYTES);
    for (size_t i = 0; i < t->ranks; i++) {
        const struct train_times *s = &t->times[i];
        if (s->steps == 0)
            continue;
        for (size_t k = 0; k < TY_COUNT(names); k++) {
            char tag[CREW_NAME_BYTES + 30];
            int64_t ns = k < PHASES ? s->ns[k] : s->wait_ns;
            snprintf(tag, sizeof tag, "%s/%s_ms", t->names[i], names[k]);
            event_scalar(&b, seconds_now(), epoch, ty_str_of(tag),
                         (float)ns / 1e6f / (float)s->steps);
        }
    }
    return append(c, 0, &b);
}

ty_err curves_weights(struct curves *c, int64_t epoch, const struct nn_net *n)
{
    struct nn_param *params;
    size_t count = nn_net_params(n, &params);
    struct ty_buf b;
    ty_buf_init(&b, EVENT_BYTES);
    for (size_t i = 0; i < count; i++) {
        char tag[300];
        snprintf(tag, sizeof tag, "%s/histogram", params[i].name.ptr);
        event_histogram(&b, seconds_now(), epoch, ty_str_of(tag), params[i].data, params[i].count);
    }
    return append(c, 0, &b);
}

struct events {
    struct ty_arena *arena;
    const char *dir;
    int fd;            /* of the file that stays; -1: none does */
    int64_t before_ns; /* what was written later stays, too */
};

static ty_err events_remove(void *arg, const char *name)
{
    const struct events *e = arg;
    const char *path = ty_format(e->arena, "%s/%s", e->dir, name);
    struct stat own, other;
    if (strncmp(name, EVENTS, sizeof EVENTS - 1) != 0 || stat(path, &other) != 0)
        return TY_OK;
    if (e->fd >= 0 && fstat(e->fd, &own) == 0 && own.st_ino == other.st_ino &&
        own.st_dev == other.st_dev)
        return TY_OK;
    if ((int64_t)other.st_mtim.tv_sec * 1000000000 + other.st_mtim.tv_nsec >= e->before_ns)
        return TY_OK;
    return output_unlink(path);
}

ty_err curves_forget(const struct curves *c, const char *dir)
{
    static const char *const folders[] = {"train", "validation", "eval"};
    struct ty_arena a = {0};
    ty_err err = TY_OK;
    for (size_t k = 0; k < TY_COUNT(folders) && err == TY_OK; k++) {
        bool own = k < TY_COUNT(c->fd);
        struct events e = {&a, ty_format(&a, "%s/%s", dir, folders[k]), own ? c->fd[k] : -1,
                           own ? INT64_MAX : c->opened_ns};
        err = output_list(e.dir, events_remove, &e);
    }
    ty_arena_clear(&a);
    return err;
}

void curves_close(struct curves *c)
{
    for (size_t k = 0; k < 2; k++) {
        if (c->fd[k] >= 0)
            close(c->fd[k]);
        c->fd[k] = -1;
    }
    ty_arena_clear(&c->arena);
}

/* curves.c -- TensorBoard's event files, as Keras's callback writes them: epoch_loss and epoch_*
 * of each metric, in train/ and validation/. */
#include "train/train_int.h"

enum { EVENT_BYTES = 1 << 26 };
static const char EVENTS[] = "events.out.tfevents.";

static double seconds_now(void)
{
    return (double)ty_now_ns() / 1e9;
}

static ty_err append(int fd, struct ty_buf *b)
{
    ty_err err = ty_buf_check(b, "an event");
    if (err == TY_OK)
        err = ty_write_all(fd, b->ptr, b->len);
    ty_buf_clear(b);
    return err;
}

static ty_err file_open(struct ty_arena *a, const char *dir, const char *name, int *ret_fd)
{
    char host[200] = "localhost", file[EVENT_NAME_BYTES];
    struct ty_buf b;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    const char *folder = ty_format(a, "%s/%s", dir, name);
    ty_err err = ty_mkdirs(folder, 0755);
    if (err != TY_OK)
        return err;
    event_file_name((int64_t)seconds_now(), host, getpid(), file);
    const char *path = ty_format(a, "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot write '%s'", path);
    ty_buf_init(&b, EVENT_BYTES);
    event_version(&b, seconds_now());
    *ret_fd = fd;
    return append(fd, &b);
}

/* The model's shape, for the Graphs tab. */
static ty_err graph_write(struct ty_arena *a, int fd, const struct nn_net *n)
{
    struct graph *g = graph_new(a);
    struct saved_signature signature;
    struct ty_buf def, b;
    ty_err err = nn_export(n, a, g, &signature);
    if (err != TY_OK)
        return err;
    ty_buf_init(&def, EVENT_BYTES);
    ty_buf_init(&b, EVENT_BYTES);
    graph_encode(g, &def);
    event_graph(&b, seconds_now(), ty_buf_str(&def));
    ty_buf_clear(&def);
    return append(fd, &b);
}

ty_err curves_open(struct curves *c, const char *dir, bool validation, const struct nn_net *n)
{
    struct ty_arena a = {0};
    c->fd[0] = c->fd[1] = -1;
    ty_err err = file_open(&a, dir, "train", &c->fd[0]);
    if (err == TY_OK && nn_export_obstacle(nn_net_model(n)) == NULL)
        err = graph_write(&a, c->fd[0], n);
    if (err == TY_OK && validation)
        err = file_open(&a, dir, "validation", &c->fd[1]);
    ty_arena_clear(&a);
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
        err = append(c->fd[k], &b);
    }
    return err;
}

ty_err curves_replicas(struct curves *c, int64_t epoch, const struct together *t)
{
    static const char *const names[] = {"data", "forward", "backward", "update", "wait"};
    struct ty_buf b;
    if (t->crew == NULL)
        return TY_OK;
    ty_buf_init(&b, EVENT_BYTES);
    for (int i = 0; i < crew_size(t->crew); i++) {
        const struct train_times *s = &t->times[i];
        for (size_t k = 0; k < TY_COUNT(names); k++) {
            char tag[CREW_NAME_BYTES + 30];
            int64_t ns = k < PHASES ? s->ns[k] : s->wait_ns;
            snprintf(tag, sizeof tag, "%s/%s_ms", t->names[i], names[k]);
            event_scalar(&b, seconds_now(), epoch, ty_str_of(tag),
                         (float)ns / 1e6f / (float)(s->steps > 0 ? s->steps : 1));
        }
    }
    return append(c->fd[0], &b);
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
    return append(c->fd[0], &b);
}

struct events {
    struct ty_arena *arena;
    const char *dir;
    int fd; /* of the file that stays; -1: none does */
};

static ty_err events_remove(void *arg, const char *name)
{
    const struct events *e = arg;
    const char *path = ty_format(e->arena, "%s/%s", e->dir, name);
    struct stat own, other;
    if (strncmp(name, EVENTS, sizeof EVENTS - 1) != 0)
        return TY_OK;
    if (e->fd >= 0 && fstat(e->fd, &own) == 0 && stat(path, &other) == 0 &&
        own.st_ino == other.st_ino && own.st_dev == other.st_dev)
        return TY_OK;
    return output_unlink(path);
}

ty_err curves_forget(const struct curves *c, const char *dir)
{
    static const char *const folders[] = {"train", "validation"};
    struct ty_arena a = {0};
    ty_err err = TY_OK;
    for (size_t k = 0; k < 2 && err == TY_OK; k++) {
        struct events e = {&a, ty_format(&a, "%s/%s", dir, folders[k]), c->fd[k]};
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
}

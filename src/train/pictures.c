/* pictures.c -- a folder of image files as a set of examples: which there are, their classes, and
 * their pixels when they are asked for.
 *
 * Files, classes, shuffle and split are those of Keras's image_dataset_from_directory (images.h).
 * Pixels are decoded and resized when a batch first needs them and are then kept, while the run's
 * room lasts: as floats, or as bytes where all are whole numbers (images that have the right size
 * already). What is not kept is decoded again at the next pass, to the same bits. */
#include "train/train_int.h"

struct picture {
    const char *path;
    struct nn_pixels kept; /* malloc; written under the lock */
};
struct train_pictures {
    struct ty_arena arena;
    const struct nn_model *model;
    struct picture *list;
    size_t count;
    _Atomic size_t *room; /* bytes that may still be kept, of all sets of the run */
    pthread_mutex_t lock; /* of `kept` */
};

size_t train_picture_floats(const struct nn_model *m)
{
    return m->images.height * m->images.width * m->images.channels;
}

/* ---- pixels ---- */

ty_err train_picture_decode(const struct nn_model *m, ty_str file, struct image_room *room,
                            float *into)
{
    const struct nn_images *i = &m->images;
    struct image_options o = {.channels = (uint32_t)i->channels};
    uint64_t warnings = 0;
    return image_load(room, file, &o, i->nearest ? IMAGE_NEAREST : IMAGE_BILINEAR,
                      (uint32_t)i->height, (uint32_t)i->width, into, &warnings);
}

ty_err train_picture_read(const struct nn_model *m, const char *path, struct image_room *room,
                          float *into)
{
    ty_str file;
    ty_err err = train_file_read(path, &file);
    if (err != TY_OK)
        return err;
    err = train_picture_decode(m, file, room, into);
    train_file_free(file);
    return err == TY_OK ? TY_OK : ty_wrap(err, "%s", path);
}

static bool all_whole(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (x[i] != (float)(uint8_t)x[i])
            return false;
    return true;
}

/* A copy to keep; none if the room is used up. */
static struct nn_pixels copy_of(const struct train_pictures *p, const float *x)
{
    size_t count = train_picture_floats(p->model);
    bool whole = all_whole(x, count);
    size_t bytes = whole ? count : count * sizeof *x;
    void *copy = train_room_take(p->room, bytes) ? malloc(bytes) : NULL;
    if (copy == NULL)
        return (struct nn_pixels){0};
    if (!whole)
        return (struct nn_pixels){.floats = memcpy(copy, x, bytes)};
    for (size_t i = 0; i < count; i++)
        ((uint8_t *)copy)[i] = (uint8_t)x[i];
    return (struct nn_pixels){.bytes = copy};
}

static void pixels_free(struct nn_pixels x)
{
    free((void *)x.floats);
    free((void *)x.bytes);
}

bool train_picture_kept(struct train_pictures *p, size_t index, struct nn_pixels *ret)
{
    pthread_mutex_lock(&p->lock);
    *ret = p->list[index].kept;
    pthread_mutex_unlock(&p->lock);
    return ret->floats != NULL || ret->bytes != NULL;
}

ty_err train_picture_take(struct train_pictures *p, size_t index, struct image_room *room,
                          float *into, struct nn_pixels *ret)
{
    struct picture *one = &p->list[index];
    if (train_picture_kept(p, index, ret))
        return TY_OK;
    ty_err err = train_picture_read(p->model, one->path, room, into);
    if (err != TY_OK)
        return err;
    struct nn_pixels copy = copy_of(p, into);
    *ret = (struct nn_pixels){.floats = into};
    if (copy.floats == NULL && copy.bytes == NULL)
        return TY_OK;
    pthread_mutex_lock(&p->lock);
    bool first = one->kept.floats == NULL && one->kept.bytes == NULL;
    if (first)
        one->kept = copy;
    pthread_mutex_unlock(&p->lock);
    if (!first) /* two batches wanted it at once */
        pixels_free(copy);
    return TY_OK;
}

/* ---- the set ---- */

/* Names of the classes: the model's, or the folders' if it only has their number. */
static ty_err classes_match(struct nn_model *m, struct ty_arena *a, const char *root,
                            const struct image_set *s, uint32_t *ret_ids)
{
    struct nn_head *h = &m->heads[0];
    size_t wanted = h->type == NN_BINARY ? 2 : h->class_count;
    if (h->classes == NULL) {
        if (s->class_count != wanted)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "'%s' has %u folders of images and the model %zu classes", root,
                           s->class_count, wanted);
        ty_str *names = ty_new_array(a, ty_str, wanted);
        for (size_t i = 0; i < wanted; i++)
            names[i] = ty_str_dup(a, s->classes[i]);
        h->classes = names;
    }
    for (uint32_t i = 0; i < s->class_count; i++) {
        uint32_t id = 0;
        while (id < wanted && !ty_str_eq(h->classes[id], s->classes[i]))
            id++;
        if (id == wanted)
            return ty_fail(TY_INVALID_ARGUMENT, "'%s/" TY_STR_FMT "': the model has no such class",
                           root, TY_STR_ARG(s->classes[i]));
        ret_ids[i] = id;
    }
    return TY_OK;
}

static void set_fill(struct train_data *d, const struct nn_model *m, const struct image_set *s,
                     const uint32_t *ids, _Atomic size_t *room)
{
    struct train_pictures *p = calloc(1, sizeof *p);
    ty_assert(p);
    pthread_mutex_init(&p->lock, NULL);
    p->model = m;
    p->room = room;
    p->count = s->count;
    p->list = ty_new_array(&p->arena, struct picture, s->count);
    d->pictures = p;
    d->files = d->rows.count = s->count;
    d->rows.labels = malloc((s->count + 1) * sizeof *d->rows.labels);
    ty_assert(d->rows.labels);
    for (size_t i = 0; i < s->count; i++) {
        p->list[i].path = ty_str_dup(&p->arena, s->files[i].path).ptr;
        d->rows.labels[i] = (float)ids[s->files[i].class_id];
    }
}

ty_err train_pictures_load(struct nn_model *m, struct ty_arena *a, const char *root, bool split,
                           _Atomic size_t *room, struct train_data *ret_train,
                           struct train_data *ret_valid)
{
    struct ty_arena work = {0};
    struct image_set all = {0}, train, valid = {0};
    ty_str *paths;
    size_t count;
    uint32_t *ids = NULL;
    ty_err err = train_folder_list(&work, root, &paths, &count);
    if (err == TY_OK)
        err = image_set_index(&work, ty_str_of(root), paths, count, &all);
    if (err == TY_OK) {
        ids = ty_new_array(&work, uint32_t, all.class_count);
        err = classes_match(m, a, root, &all, ids);
    }
    train = all;
    if (err == TY_OK && split) {
        image_set_shuffle(&all, m->images.split_seed);
        err = image_set_split(&all, m->images.validation_split, &train, &valid);
    }
    if (err == TY_OK) {
        set_fill(ret_train, m, &train, ids, room);
        if (split)
            set_fill(ret_valid, m, &valid, ids, room);
    }
    ty_arena_clear(&work);
    return err;
}

void train_pictures_free(struct train_pictures *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->count; i++)
        pixels_free(p->list[i].kept);
    pthread_mutex_destroy(&p->lock);
    ty_arena_clear(&p->arena);
    free(p);
}

/* ---- bad_rows: skip: those that do not decode are found before the first step ---- */

struct check {
    struct train_pictures *pictures;
    char **messages; /* by picture; NULL: it is good */
};

static void check_one(void *arg, int index)
{
    const struct check *c = arg;
    struct image_room room = {0};
    struct nn_pixels pixels;
    float *into = malloc(train_picture_floats(c->pictures->model) * sizeof *into);
    ty_assert(into);
    if (train_picture_take(c->pictures, (size_t)index, &room, into, &pixels) != TY_OK)
        c->messages[index] = ty_err_take();
    image_room_clear(&room);
    free(into);
}

void train_pictures_check(struct train_data *d, struct tensor_team *team)
{
    struct train_pictures *p = d->pictures;
    struct check c = {p, calloc(p->count + 1, sizeof *c.messages)};
    size_t good = 0;
    ty_assert(c.messages);
    tensor_team_run(team, check_one, &c, (int)p->count);
    for (size_t i = 0; i < p->count; i++) {
        if (c.messages[i] == NULL) {
            d->rows.labels[good] = d->rows.labels[i];
            p->list[good++] = p->list[i];
            continue;
        }
        if (d->bad_rows++ == 0)
            snprintf(d->first_bad, sizeof d->first_bad, "%s", c.messages[i]);
        free(c.messages[i]);
    }
    free(c.messages);
    p->count = d->rows.count = good;
}

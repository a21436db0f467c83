/* folder.c -- which files of a folder are images, of which class, and which of them validate: the
 * choice Keras 2.15's image_dataset_from_directory makes.
 *
 * Keras lists class after class, folder after folder, name after name, each sorted as Python sorts
 * text (by code point, which for UTF-8 is by byte); shuffles that list with numpy's RandomState and
 * takes the validation files off its end. */
#include "images/images.h"

static const char *const endings[] = {".bmp", ".gif", ".jpeg", ".jpg", ".png"};

/* A path in three pieces, all views: "roses", "roses/wild", "1.jpg". */
struct piece {
    ty_str path, class_name, folder, name;
};

bool image_name_fits(ty_str name)
{
    for (size_t i = 0; i < TY_COUNT(endings); i++) {
        size_t n = strlen(endings[i]);
        if (name.len >= n && strncasecmp(name.ptr + name.len - n, endings[i], n) == 0)
            return true;
    }
    return false;
}

/* False if Keras would not see a class in this path. */
static bool path_cut(ty_str path, size_t root_len, struct piece *ret_piece)
{
    ty_str below = ty_str_drop(path, root_len), rest = below, class_name;
    if (!ty_str_split(&rest, '/', &class_name) || class_name.len == 0 || class_name.ptr[0] == '.')
        return false;
    const char *slash = memrchr(below.ptr, '/', below.len);
    size_t folder_len = (size_t)(slash - below.ptr);
    *ret_piece = (struct piece){
        path, class_name, {below.ptr, folder_len}, ty_str_drop(below, folder_len + 1)};
    return true;
}

static int piece_cmp(const void *a, const void *b)
{
    const struct piece *p = a, *q = b;
    int order = ty_str_cmp(p->class_name, q->class_name);
    if (order == 0)
        order = ty_str_cmp(p->folder, q->folder);
    return order ? order : ty_str_cmp(p->name, q->name);
}

/* Sorted pieces into files and classes. A folder is a class even if no image is in it. */
static ty_err set_fill(struct ty_arena *a, const struct piece *pieces, size_t count,
                       struct image_set *s)
{
    ty_str *classes =
        ty_new_array(a, ty_str, IMAGE_MOST_CLASSES < count ? IMAGE_MOST_CLASSES : count);
    s->files = ty_new_array(a, struct image_file, count);
    s->classes = classes;
    for (size_t i = 0; i < count; i++) {
        const struct piece *p = &pieces[i];
        if (i == 0 || !ty_str_eq(p->class_name, pieces[i - 1].class_name)) {
            if (s->class_count == IMAGE_MOST_CLASSES)
                return ty_fail(TY_INVALID_ARGUMENT, "more than %d folders are classes",
                               IMAGE_MOST_CLASSES);
            classes[s->class_count++] = p->class_name;
        }
        if (image_name_fits(p->name))
            s->files[s->count++] = (struct image_file){p->path, s->class_count - 1};
        else
            s->skipped++;
    }
    return TY_OK;
}

ty_err image_set_index(struct ty_arena *a, ty_str root, const ty_str *paths, size_t count,
                       struct image_set *ret_set)
{
    bool open = root.len > 0 && root.ptr[root.len - 1] != '/'; /* the '/' is the path's to bring */
    struct image_set s = {0};
    struct piece *pieces = ty_new_array(a, struct piece, count);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t below = root.len + open;
        if (!ty_str_starts(paths[i], root) || paths[i].len < below ||
            (open && paths[i].ptr[root.len] != '/'))
            return ty_fail(TY_INVALID_ARGUMENT, "'" TY_STR_FMT "' is not below '" TY_STR_FMT "'",
                           TY_STR_ARG(paths[i]), TY_STR_ARG(root));
        if (path_cut(paths[i], below, &pieces[kept]))
            kept++;
        else
            s.skipped++;
    }
    if (kept > 0)
        qsort(pieces, kept, sizeof *pieces, piece_cmp);
    ty_err err = set_fill(a, pieces, kept, &s);
    if (err)
        return err;
    if (s.count == 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "no image is in a folder below '" TY_STR_FMT
                       "' (of %zu files): each class has its folder, with JPEG or PNG files in it",
                       TY_STR_ARG(root), count);
    *ret_set = s;
    return TY_OK;
}

void image_set_shuffle(struct image_set *s, uint32_t seed)
{
    struct mt19937 m;
    mt19937_init(&m, seed);
    for (size_t i = s->count; i-- > 1;) {
        size_t other = mt19937_upto(&m, i);
        struct image_file kept = s->files[i];
        s->files[i] = s->files[other];
        s->files[other] = kept;
    }
}

ty_err image_set_split(const struct image_set *s, double fraction, struct image_set *ret_training,
                       struct image_set *ret_validation)
{
    if (!(fraction > 0 && fraction < 1))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "a validation split of %g is not possible: it lies between 0 and 1",
                       fraction);
    size_t last = (size_t)(fraction * (double)s->count);
    if (last == 0 || last == s->count)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "a validation split of %g of %zu images leaves none to %s", fraction,
                       s->count, last ? "train with" : "validate with");
    struct image_set training = *s, validation = *s;
    training.count -= last;
    validation.files += training.count;
    validation.count = last;
    *ret_training = training;
    *ret_validation = validation;
    return TY_OK;
}

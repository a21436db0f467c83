/* names.c -- messages with the names that the user wrote.
 *
 * An object of a bucket is a file of this machine (files.c), and what opens it names the file. The
 * user asked for gs://BUCKET/NAME: where a message has the bucket's folder, it gets the bucket. */
#include "train/train_int.h"

enum { MESSAGE_BYTES = 1 << 16 };

/* The folder of a name's bucket, with a slash at its end; NULL: the name is of no bucket. */
static const char *bucket_folder(struct ty_arena *a, const char *name, const char **ret_bucket)
{
    ty_str bucket, object;
    const char *path;
    if (!wire_gs_parse(ty_str_of(name), &bucket, &object))
        return NULL;
    *ret_bucket = ty_format(a, "gs://" TY_STR_FMT "/", TY_STR_ARG(bucket));
    if (train_path(a, ty_format(a, "%sx", *ret_bucket), &path) != TY_OK)
        return NULL;
    return ty_format(a, "%.*s", (int)strlen(path) - 1, path);
}

static char *text_replace(struct ty_arena *a, const char *text, const char *from, const char *to)
{
    struct ty_buf b;
    ty_buf_init(&b, MESSAGE_BYTES);
    for (const char *at; (at = strstr(text, from)) != NULL; text = at + strlen(from)) {
        ty_buf_add(&b, text, (size_t)(at - text));
        ty_buf_addz(&b, to);
    }
    ty_buf_addz(&b, text);
    char *replaced = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return replaced;
}

ty_err train_names_say(ty_err err, const char *const *names, size_t count)
{
    struct ty_arena a = {0};
    char *taken = ty_err_take();
    const char *message = taken, *bucket;
    for (size_t i = 0; i < count; i++) {
        const char *folder = names[i] ? bucket_folder(&a, names[i], &bucket) : NULL;
        if (folder)
            message = text_replace(&a, message, folder, bucket);
    }
    (void)!ty_fail(err, "%s", message);
    free(taken);
    ty_arena_clear(&a);
    return err;
}

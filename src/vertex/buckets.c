/* buckets.c -- gs:// in a job's spec: is the bucket here, is the object?
 *
 * A bucket of this machine is a folder and an object a file in it (objects.h), and that file is
 * what the job's preparation will read, so looking at it is the right question; nothing is asked of
 * Google. */
#include "vertex/vertex_int.h"

/* Is the bucket of a gs:// URI here? If not, say how to get there. */
static bool bucket_check(const struct vertex *vertex, ty_str uri, const char *field,
                         struct wire_violations *v)
{
    ty_str bucket, name;
    struct stat st;
    if (!wire_gs_parse(uri, &bucket, &name)) {
        wire_violation_add(v, field, "'%.*s' is not of the form gs://BUCKET/NAME",
                           (int)(uri.len < 256 ? uri.len : 256), uri.ptr);
        return false;
    }
    const char *path =
        ty_format(v->arena, "%s/buckets/" TY_STR_FMT, vertex->data_dir, TY_STR_ARG(bucket));
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return true;
    wire_violation_add(
        v, field,
        "there is no bucket '" TY_STR_FMT "' on this machine, and Google's are not "
        "reached from here. Make it with 'trainyard storage buckets create gs://" TY_STR_FMT
        "'; to bring data of Google's bucket in, download it in a shell without "
        "'trainyard env' and copy it here with 'trainyard storage cp -r FOLDER gs://" TY_STR_FMT
        "'",
        TY_STR_ARG(bucket), TY_STR_ARG(bucket), TY_STR_ARG(bucket));
    return false;
}

const char *vertex_object_check(const struct vertex *vertex, ty_str uri, const char *field,
                                struct wire_violations *v)
{
    struct stat st;
    if (!bucket_check(vertex, uri, field, v))
        return NULL;
    const char *path = wire_gs_path(v->arena, vertex->data_dir, uri);
    if (path == NULL)
        wire_violation_add(v, field,
                           "an object of this name has no file that a job could read: its parts "
                           "must have 1 to 255 bytes and not be '.' or '..'; copy it to another "
                           "name");
    else if (stat(path, &st) == 0)
        return path;
    else
        wire_violation_add(v, field,
                           "there is no object '" TY_STR_FMT "'; 'gsutil cp FILE " TY_STR_FMT
                           "' puts one there",
                           TY_STR_ARG(uri), TY_STR_ARG(uri));
    return NULL;
}

void vertex_output_check(const struct vertex *vertex, ty_str uri, const char *field,
                         struct wire_violations *v)
{
    ty_str bucket, name;
    struct stat st;
    if (!bucket_check(vertex, uri, field, v) || !wire_gs_parse(uri, &bucket, &name))
        return;
    while (name.len > 0 && name.ptr[name.len - 1] == '/') {
        name.len--;
        uri.len--;
    }
    const char *path = wire_gs_path(v->arena, vertex->data_dir, uri);
    if (path != NULL && stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        wire_violation_add(v, field, "'" TY_STR_FMT "' is an object, so nothing can be below it",
                           TY_STR_ARG(uri));
}

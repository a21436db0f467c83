/* export.c -- a SavedModel on disk, and beside the graph the model file it was made of.
 *
 *   saved_model.pb, fingerprint.pb, variables/variables.{index,data-00000-of-00001}
 *   assets.extra/trainyard.json   {"model": "...", "parameters": {"nbuckets": "10"}, "classes": []}
 *                                 (classes: of a model of images, whose folders gave them)
 *
 * Written under a name that nobody looks for, then renamed: it is there whole or not at all. What a
 * failure left of it is removed, so that a full disk is not fuller than before. */
#include "train/train_int.h"

#include <dirent.h>

enum { JSON_BYTES = 4 << 20 };

static ty_err variables_write(struct ty_arena *a, const struct nn_net *n, const char *dir,
                              struct ty_buf *index)
{
    struct bundle_writer w;
    struct nn_param *params;
    size_t count = nn_net_params(n, &params);
    const char *path = ty_format(a, "%s/variables/variables.data-00000-of-00001", dir);
    ty_err err = ty_mkdirs(ty_format(a, "%s/variables", dir), 0755);
    if (err != TY_OK)
        return err;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot write '%s'", path);
    bundle_writer_init(&w, a);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        ty_str bytes = {(const char *)params[i].data, params[i].count * sizeof(float)};
        err = bundle_add(&w, params[i].name, DTYPE_FLOAT, &params[i].shape, bytes);
        if (err == TY_OK)
            err = ty_write_all(fd, bytes.ptr, bytes.len);
    }
    if (err == TY_OK)
        err = ty_sync(fd);
    close(fd);
    if (err == TY_OK)
        err = bundle_index(&w, index);
    if (err == TY_OK)
        err = ty_buf_check(index, "variables.index");
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/variables/variables.index", dir),
                              ty_buf_str(index), 0644);
    return err;
}

static ty_err model_write(struct ty_arena *a, const struct nn_net *n, const char *dir, ty_str index)
{
    struct graph *g = graph_new(a);
    struct saved_signature signature;
    struct ty_buf pb, fingerprint;
    ty_err err = nn_export(n, a, g, &signature);
    if (err != TY_OK)
        return err;
    ty_buf_init(&pb, SAVED_MODEL_BYTES);
    ty_buf_init(&fingerprint, 1000);
    err = saved_model_encode(g, &signature, 1, &pb);
    if (err == TY_OK)
        err = ty_buf_check(&pb, "saved_model.pb");
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/saved_model.pb", dir), ty_buf_str(&pb),
                              0644);
    if (err == TY_OK) {
        saved_model_fingerprint(ty_buf_str(&pb), index, &fingerprint);
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/fingerprint.pb", dir),
                              ty_buf_str(&fingerprint), 0644);
    }
    ty_buf_clear(&pb);
    ty_buf_clear(&fingerprint);
    return err;
}

static void classes_write(struct ty_buf *b, const struct nn_model *m)
{
    const struct nn_head *h = &m->heads[0];
    size_t count = h->type == NN_BINARY ? 2 : h->class_count;
    ty_buf_addz(b, ",\"classes\":[");
    for (size_t i = 0; i < count && h->classes; i++) {
        ty_buf_addz(b, i ? "," : "");
        wire_json_string(b, h->classes[i]);
    }
    ty_buf_addz(b, "]");
}

static void measured_write(struct ty_buf *b, const struct nn_model *m)
{
    const char *before = "";
    ty_buf_addz(b, ",\"measured\":{");
    for (size_t i = m->column_count; i < m->value_count; i++) {
        const struct nn_value *v = &m->values[i];
        if (!v->measured)
            continue;
        ty_buf_addz(b, before);
        wire_json_string(b, v->name);
        ty_buf_addf(b, ":[%.9g,%.9g]", (double)v->subtract, (double)v->divide);
        before = ",";
    }
    ty_buf_addz(b, "}");
}

static ty_err source_write(struct ty_arena *a, const struct nn_model *m, const char *dir)
{
    struct ty_buf b;
    const char *folder = ty_format(a, "%s/assets.extra", dir);
    ty_buf_init(&b, JSON_BYTES);
    ty_buf_addz(&b, "{\"model\":");
    wire_json_string(&b, m->text);
    ty_buf_addz(&b, ",\"parameters\":{");
    for (size_t i = 0; i < m->parameter_count; i++) {
        const struct nn_parameter *p = &m->parameters[i];
        ty_buf_addz(&b, i ? "," : "");
        wire_json_string(&b, p->name);
        ty_buf_addz(&b, ":\"");
        for (size_t k = 0; k < p->count; k++)
            ty_buf_addf(&b, "%s%.17g", k ? " " : "", p->numbers[k]);
        ty_buf_addz(&b, "\"");
    }
    ty_buf_addz(&b, "}");
    if (m->images.height > 0)
        classes_write(&b, m);
    measured_write(&b, m);
    ty_buf_addz(&b, "}\n");
    ty_err err = ty_buf_check(&b, "trainyard.json");
    if (err == TY_OK)
        err = ty_mkdirs(folder, 0755);
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/trainyard.json", folder), ty_buf_str(&b),
                              0644);
    ty_buf_clear(&b);
    return err;
}

ty_err train_export(struct nn_net *n, const char *dir)
{
    struct ty_arena a = {0};
    struct ty_buf index;
    const char *slash = strrchr(dir, '/');
    size_t parent = slash ? (size_t)(slash - dir) : 0;
    const char *making = slash ? ty_format(&a, "%.*s/.making-%s", (int)parent, dir, slash + 1)
                               : ty_format(&a, ".making-%s", dir);
    ty_buf_init(&index, 1 << 26);
    ty_err err = ty_remove_tree(AT_FDCWD, making);
    if (err == TY_OK)
        err = ty_mkdirs(making, 0755);
    if (err == TY_OK)
        err = variables_write(&a, n, making, &index);
    if (err == TY_OK)
        err = model_write(&a, n, making, ty_buf_str(&index));
    if (err == TY_OK)
        err = source_write(&a, nn_net_model(n), making);
    if (err == TY_OK)
        err = ty_rename_at(AT_FDCWD, making, dir);
    if (err != TY_OK) {
        char *why = ty_err_take();
        if (ty_remove_tree(AT_FDCWD, making) != TY_OK)
            log_warn("export.left", "%s", ty_err_message());
        err = ty_fail(err, "export '%s': %s", dir, why);
        free(why);
    }
    ty_buf_clear(&index);
    ty_arena_clear(&a);
    return err;
}

static bool is_older(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec < b->st_mtim.tv_sec ||
           (a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec < b->st_mtim.tv_nsec);
}

const char *train_export_find(struct ty_arena *a, const char *parent, const char *than)
{
    struct stat limit, newest = {0};
    const char *found = NULL;
    DIR *d = stat(than, &limit) == 0 ? opendir(parent) : NULL;
    if (d == NULL)
        return NULL;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        if (e->d_name[0] == '.' ||
            stat(ty_format(a, "%s/%s/saved_model.pb", parent, e->d_name), &st) != 0 ||
            is_older(&st, &limit) || is_older(&st, &newest))
            continue;
        newest = st;
        found = ty_format(a, "%s", e->d_name);
    }
    closedir(d);
    return found;
}

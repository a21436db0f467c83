/* publish.c -- who may write a job's model: its chief, and nobody else of the job (J7).
 *
 * On /gcs the other replicas have a folder of their own in the model's place (exec's plan). Through
 * the API they would reach the same objects, so there each change of an object is asked here first.
 * Nearly all of them are answered by the name alone, or by one look at the disk: a job with several
 * replicas has the folder model/workertemp_1 as long as it runs. Only then it is asked who calls:
 * by the token of the request, or where it shows none, by the process that holds the other end of
 * the connection. Whoever is no replica of the job may write, as ever: a user may well put a file
 * there.
 *
 * Below workertemp_* everybody may write, and anybody may make the folder itself ("…/model/", an
 * empty object): TensorFlow's own examples do both. */
#include "server/server_int.h"

#include "exec/exec.h"
#include "wire/wire.h"

/* Is a job with several replicas publishing to a folder that `name` is in? */
static bool several_publish(const struct server *s, struct ty_arena *a, ty_str bucket, ty_str name)
{
    static const char part[] = "model/";
    const char *at = name.ptr, *end = name.ptr + name.len;
    struct stat st;
    while ((at = memmem(at, (size_t)(end - at), part, strlen(part))) != NULL) {
        const char *path = NULL;
        at += strlen(part);
        if (at - strlen(part) == name.ptr || at[-(ptrdiff_t)strlen(part) - 1] == '/')
            path = wire_gs_path(
                a, s->data_dir,
                ty_str_of(ty_format(a, "gs://" TY_STR_FMT "/%.*s" EXEC_WORKER_MODEL "1",
                                    TY_STR_ARG(bucket), (int)(at - name.ptr), name.ptr)));
        if (path && stat(path, &st) == 0)
            return true;
    }
    return false;
}

static bool caller(const struct server *s, const struct http_request *req,
                   struct exec_owner *ret_owner)
{
    const struct http_replica *r = &req->replica;
    struct http_peer peer;
    if (r->job == 0)
        return http_request_peer(req, &peer) &&
               exec_owner_find(s->data_dir, peer.inode, peer.pid, ret_owner);
    *ret_owner = (struct exec_owner){r->job, r->attempt, r->pool, r->index};
    return true;
}

/* The name of the folder that the job's model goes to; empty: it is not in `bucket`. */
static ty_err model_folder(const struct server *s, struct ty_arena *a, int64_t job_id,
                           ty_str bucket, ty_str *ret_folder)
{
    struct job job;
    json_t *body = NULL;
    ty_str model_bucket, name;
    *ret_folder = TY_STR("");
    ty_err err = store_job_load(s->store, a, job_id, &job);
    if (err == TY_OK)
        err = wire_json_parse_members(job.body, &body);
    if (err != TY_OK)
        return err == TY_NOT_FOUND ? TY_OK : err;
    char *uri = exec_model_uri(a, json_object_get(body, "jobSpec"));
    json_decref(body);
    if (uri && wire_gs_parse(ty_str_of(uri), &model_bucket, &name) &&
        ty_str_eq(model_bucket, bucket))
        *ret_folder = name;
    return TY_OK;
}

ty_err publish_may(void *ctx, const struct http_request *req, ty_str bucket, ty_str name)
{
    const struct server *s = ctx;
    struct exec_owner who;
    ty_str folder;
    if (!several_publish(s, req->arena, bucket, name) || !caller(s, req, &who) ||
        (who.pool == 0 && who.index == 0))
        return TY_OK;
    ty_err err = model_folder(s, req->arena, who.job_id, bucket, &folder);
    if (err != TY_OK || folder.len == 0 || !ty_str_starts(name, folder))
        return err;
    ty_str rest = ty_str_drop(name, folder.len);
    if (rest.len == 0 || ty_str_starts(rest, TY_STR(EXEC_WORKER_MODEL)))
        return TY_OK;
    return ty_fail(TY_PERMISSION_DENIED,
                   "'gs://" TY_STR_FMT "/" TY_STR_FMT "' is in the model folder of job %" PRId64
                   " (AIP_MODEL_DIR), and only its chief writes there, so that no model is of two "
                   "minds; this is replica %d-%d: write below '" TY_STR_FMT EXEC_WORKER_MODEL
                   "%d-%d/', AIP_CHECKPOINT_DIR or AIP_TENSORBOARD_LOG_DIR instead",
                   TY_STR_ARG(bucket), TY_STR_ARG(name), who.job_id, who.pool, who.index,
                   TY_STR_ARG(folder), who.pool, who.index);
}

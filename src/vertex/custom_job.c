/* custom_job.c -- customJobs: create, get, list, cancel, delete.
 *
 * A create that has been committed always answers 200: gcloud sends a create again after any 5xx,
 * so everything that can fail (body, rules, disk) is done before the commit, and after it only
 * memory is touched. */
#include "vertex/vertex_int.h"

#include "exec/exec.h"

#include <sys/statvfs.h>

/* The canonical job of a request's body, checked against all rules. A new reference. */
static ty_err body_read(const struct vertex *v, struct http_request *req, struct http_response *res,
                        json_t **ret_job)
{
    json_t *in = NULL;
    ty_err err = wire_json_parse(req->body, &in);
    if (err != TY_OK)
        return ty_wrap(err, "request body");
    struct wire_violations violations;
    wire_violations_init(&violations, req->arena);
    json_t *job = wire_normalise(&vertex_custom_job, in, "", &violations);
    json_decref(in);
    if (violations.count == 0)
        vertex_fields_refuse(vertex_fields, job, &violations);
    if (violations.count == 0) {
        vertex_job_defaults(job);
        vertex_job_validate(v, job, &violations);
    }
    err = vertex_violations_reply(&violations, res);
    if (err == TY_OK)
        *ret_job = job;
    else
        json_decref(job);
    return err;
}

/* A job that starts on a nearly full disk only fails later, with more to clean up. */
static ty_err disk_check(const struct vertex *v)
{
    struct statvfs s;
    if (statvfs(v->data_dir, &s) != 0)
        return ty_fail(TY_INTERNAL, "cannot ask for the free space of '%s': %s", v->data_dir,
                       strerror(errno));
    uint64_t left = (uint64_t)s.f_bavail * s.f_frsize;
    if (left >= (uint64_t)v->config->disk_reserve_bytes)
        return TY_OK;
    return ty_fail(TY_RESOURCE_EXHAUSTED,
                   "the disk of '%s' has %" PRIu64 " bytes left, below the reserve of %" PRId64
                   " (setting disk_reserve_bytes): free some space, or delete old jobs",
                   v->data_dir, left, v->config->disk_reserve_bytes);
}

ty_str vertex_json_text(struct ty_arena *a, const json_t *value)
{
    if (value == NULL)
        return TY_STR("");
    struct ty_buf b;
    ty_buf_init(&b, VERTEX_BODY_BYTES + 1024);
    wire_json_dump(&b, value);
    ty_str text = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

ty_err vertex_job_accept(struct vertex *v, struct ty_arena *a, const json_t *custom_job,
                         struct job *job)
{
    ty_err err = disk_check(v);
    if (err != TY_OK)
        return err;
    ty_str text = vertex_json_text(a, custom_job);
    job->display_name = wire_json_get_str(custom_job, "displayName");
    job->labels = vertex_json_text(a, json_object_get(custom_job, "labels"));
    job->body = (ty_str){text.ptr + 1, text.len - 2}; /* without its braces */
    job->replicas = exec_replica_count(json_object_get(custom_job, "jobSpec"));
    err = store_job_create(v->store, job);
    if (err == TY_OK)
        v->notify(v->notify_arg, job->id);
    return err;
}

ty_err custom_job_create(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    struct job job = {.project = req->capture[0], .region = req->capture[1]};
    json_t *custom_job = NULL;
    ty_err err = vertex_parent_check(req, res);
    if (err == TY_OK)
        err = body_read(v, req, res, &custom_job);
    if (err == TY_OK)
        err = vertex_job_accept(v, req->arena, custom_job, &job);
    if (err == TY_OK)
        vertex_job_json(&res->body, &job);
    json_decref(custom_job);
    return err;
}

/* Real `gcloud ai custom-jobs stream-logs` reads the job once and follows for ever unless that
 * reply has an endTime. So it is given one; the log side (cloudlog) keeps its polls waiting while
 * the job runs, and it ends by itself when the job does. */
static bool wants_end_time(const struct http_request *req)
{
    ty_str mark = TY_STR("custom-jobs.stream-logs");
    return memmem(req->user_agent.ptr, req->user_agent.len, mark.ptr, mark.len) != NULL;
}

ty_err custom_job_get(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    struct vertex_mask mask;
    struct job job;
    int64_t id;
    ty_err err = vertex_id_read(req, res, 2, "job", &id);
    if (err == TY_OK)
        err = vertex_mask_read(req, res, &mask);
    if (err == TY_OK)
        err = store_job_get(v->store, req->arena, req->capture[0], req->capture[1], id, &job);
    if (err != TY_OK)
        return err;
    if (job.end_ns == 0 && wants_end_time(req))
        job.end_ns = ty_now_ns();
    vertex_job_json_masked(&res->body, &job, &mask);
    return TY_OK;
}

/* ---- list ---- */

struct list {
    struct ty_buf *out;
    struct wire_filter *filter;
    struct vertex_mask mask;
    size_t left; /* places on the page */
    int64_t last_id;
    bool more; /* there are rows after the page; whether they match is the next call's business */
};

static bool list_visit(const struct job *job, void *arg)
{
    struct list *l = arg;
    if (l->left == 0) {
        l->more = true;
        return false;
    }
    if (vertex_filter_matches(l->filter, &vertex_words, job)) {
        ty_buf_addz(l->out, l->out->len == 0 ? "{\"customJobs\":[" : ",");
        vertex_job_json_masked(l->out, job, &l->mask);
        l->last_id = job->id;
        l->left = l->out->len < VERTEX_PAGE_BYTES ? l->left - 1 : 0;
    }
    return true;
}

ty_err custom_job_list(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    struct list l = {.out = &res->body};
    struct vertex_page page;
    ty_err err = vertex_parent_check(req, res);
    if (err == TY_OK)
        err = vertex_page_read(req, res, &page);
    if (err == TY_OK)
        err = vertex_filter_read(req, res, &vertex_words, &l.filter);
    if (err == TY_OK)
        err = vertex_mask_read(req, res, &l.mask);
    if (err != TY_OK)
        return err;

    struct ty_arena row = {0};
    l.left = page.size;
    err = store_job_list(v->store, &row, req->capture[0], req->capture[1], page.before, list_visit,
                         &l);
    ty_arena_clear(&row);
    if (err != TY_OK)
        return err;
    if (l.out->len == 0) {
        ty_buf_addz(l.out, "{}");
        return TY_OK;
    }
    ty_buf_addc(l.out, ']');
    if (l.more)
        ty_buf_addf(l.out, ",\"nextPageToken\":\"%" PRId64 "\"", l.last_id);
    ty_buf_addc(l.out, '}');
    return TY_OK;
}

/* ---- cancel, delete ---- */

ty_err custom_job_cancel(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    int64_t id;
    ty_err err = vertex_id_read(req, res, 2, "job", &id);
    if (err == TY_OK)
        err = store_job_cancel(v->store, req->capture[0], req->capture[1], id);
    if (err != TY_OK)
        return err;
    v->notify(v->notify_arg, id);
    ty_buf_addz(&res->body, "{}");
    return TY_OK;
}

ty_err custom_job_delete(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    struct operation op;
    int64_t id;
    ty_err err = vertex_id_read(req, res, 2, "job", &id);
    if (err == TY_OK)
        err = store_job_delete(v->store, req->arena, req->capture[0], req->capture[1], id, &op);
    if (err != TY_OK)
        return err;
    /* The row is gone, so the job is; what stays of its folder is removed at the next start. */
    const char *folder = ty_format(req->arena, "%s/jobs/%" PRId64, v->data_dir, id);
    if (ty_remove_tree(AT_FDCWD, folder) != TY_OK)
        log_warn("job.folder_left", "job=%" PRId64 " reason=%s", id, ty_err_message());
    vertex_operation_json(&res->body, &op);
    return TY_OK;
}

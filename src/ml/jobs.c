/* jobs.c -- projects.jobs: create, get, list, patch, cancel.
 *
 * As in vertex/custom_job.c, whatever can fail is done before a create is committed: gcloud sends a
 * create again after any 5xx. A job is asked for by the id its user chose; which region it is in is
 * a field of it. */
#include "ml/ml_int.h"

/* ---- create ---- */

/* The canonical Job of a request's body and the CustomJob it runs as, new references; checked. */
static ty_err body_read(const struct vertex *v, struct http_request *req, struct http_response *res,
                        json_t **ret_job, json_t **ret_custom_job)
{
    json_t *in = NULL, *custom_job = NULL;
    ty_err err = wire_json_parse(req->body, &in);
    if (err != TY_OK)
        return ty_wrap(err, "request body");
    struct wire_violations violations;
    wire_violations_init(&violations, req->arena);
    json_t *job = wire_normalise(&ml_job, in, "", &violations);
    json_decref(in);
    vertex_fields_refuse(ml_fields, job, &violations);
    if (violations.count == 0)
        custom_job = ml_translate(v, job, &violations);
    err = vertex_violations_reply(&violations, res);
    if (err == TY_OK) {
        *ret_job = job;
        *ret_custom_job = custom_job;
        return TY_OK;
    }
    json_decref(job);
    json_decref(custom_job);
    return err;
}

ty_err ml_job_create(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    json_t *in = NULL, *custom_job = NULL;
    ty_err err = vertex_project_check(req, res);
    if (err == TY_OK)
        err = body_read(v, req, res, &in, &custom_job);
    if (err != TY_OK)
        return err;
    const json_t *input = json_object_get(in, "trainingInput");
    struct job job = {.project = req->capture[0],
                      .region = wire_json_get_str(input, "region"),
                      .ml_id = wire_json_get_str(in, "jobId"),
                      .ml_input = vertex_json_text(req->arena, input)};
    err = vertex_job_accept(v, req->arena, custom_job, &job);
    if (err == TY_OK)
        ml_job_json(&res->body, req->arena, &job);
    json_decref(in);
    json_decref(custom_job);
    return err;
}

/* ---- get ---- */

static ty_err job_find(struct vertex *v, struct http_request *req, struct http_response *res,
                       struct job *ret_job)
{
    ty_err err = vertex_project_check(req, res);
    return err == TY_OK
               ? store_ml_get(v->store, req->arena, req->capture[0], req->capture[1], ret_job)
               : err;
}

ty_err ml_job_get(struct http_request *req, struct http_response *res, void *ctx)
{
    struct job job;
    ty_err err = job_find(ctx, req, res, &job);
    if (err == TY_OK)
        ml_job_json(&res->body, req->arena, &job);
    return err;
}

/* ---- list ---- */

struct list {
    struct ty_buf *out;
    struct ty_arena *arena; /* of one row */
    struct wire_filter *filter;
    size_t left; /* places on the page */
    int64_t last_id;
    bool more;
};

static ty_str text_of(struct ty_arena *a, const struct job *job, const char *name)
{
    (void)name;
    return job_ml_id(a, job);
}

static const struct vertex_filter_words words = {
    .texts = {"jobId", NULL},
    .text = text_of,
    .state = ml_state_name,
    .state_is_known = ml_state_is_known,
    .state_example = "RUNNING",
};

static bool list_visit(const struct job *job, void *arg)
{
    struct list *l = arg;
    if (l->left == 0) {
        l->more = true;
        return false;
    }
    if (vertex_filter_matches(l->filter, &words, job)) {
        ty_buf_addz(l->out, l->out->len == 0 ? "{\"jobs\":[" : ",");
        ml_job_json(l->out, l->arena, job);
        l->last_id = job->id;
        l->left = l->out->len < VERTEX_PAGE_BYTES ? l->left - 1 : 0;
    }
    return true;
}

ty_err ml_job_list(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    struct ty_arena row = {0};
    struct list l = {.out = &res->body, .arena = &row};
    struct vertex_page page;
    ty_err err = vertex_project_check(req, res);
    if (err == TY_OK)
        err = vertex_page_read(req, res, &page);
    if (err == TY_OK)
        err = vertex_filter_read(req, res, &words, &l.filter);
    if (err != TY_OK)
        return err;
    l.left = page.size;
    err = store_ml_list(v->store, &row, req->capture[0], page.before, list_visit, &l);
    ty_arena_clear(&row);
    if (err != TY_OK)
        return err;
    ty_buf_addz(l.out, l.out->len > 0 ? "]" : "{");
    if (l.more)
        ty_buf_addf(l.out, ",\"nextPageToken\":\"%" PRId64 "\"", l.last_id);
    ty_buf_addc(l.out, '}');
    return TY_OK;
}

/* ---- patch ---- */

/* Labels alone can be changed, as with Google. */
static ty_err mask_check(struct http_request *req, struct http_response *res)
{
    ty_str mask = ty_str_trim(http_query(req, "updateMask"));
    if (ty_str_is(mask, "labels"))
        return TY_OK;
    return vertex_fail_field(req, res, "updateMask",
                             "must be 'labels': nothing else of a job can be changed");
}

static ty_err labels_read(struct http_request *req, struct http_response *res,
                          const struct job *job, json_t **ret_labels)
{
    json_t *in = NULL;
    ty_err err = wire_json_parse(req->body, &in);
    if (err != TY_OK)
        return ty_wrap(err, "request body");
    struct wire_violations v;
    wire_violations_init(&v, req->arena);
    if (json_is_object(in)) /* which job it is, the path says */
        json_object_set_new(in, "jobId", json_string("patched"));
    json_t *patch = wire_normalise(&ml_job, in, "", &v);
    json_decref(in);
    json_t *labels = json_object_get(patch, "labels");
    ty_str etag = wire_json_get_str(patch, "etag");
    vertex_labels_check(labels, &v);
    err = vertex_violations_reply(&v, res);
    if (err == TY_OK && etag.len > 0 && !ty_str_is(etag, ml_etag(req->arena, job)))
        err = ty_fail(TY_ABORTED,
                      "the labels of job '" TY_STR_FMT
                      "' were changed meanwhile: read it again and repeat the change",
                      TY_STR_ARG(job->ml_id));
    if (err == TY_OK)
        *ret_labels = labels != NULL ? json_incref(labels) : json_object();
    json_decref(patch);
    return err;
}

ty_err ml_job_patch(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    struct job job;
    json_t *labels = NULL, *body = NULL;
    ty_err err = job_find(v, req, res, &job);
    if (err == TY_OK)
        err = mask_check(req, res);
    if (err == TY_OK)
        err = labels_read(req, res, &job, &labels);
    if (err == TY_OK)
        err = wire_json_parse_members(job.body, &body);
    if (err == TY_OK) {
        json_object_set(body, "labels", labels);
        ty_str text = vertex_json_text(req->arena, body);
        job.labels = vertex_json_text(req->arena, labels);
        err = store_job_relabel(v->store, job.id, job.labels, (ty_str){text.ptr + 1, text.len - 2});
    }
    if (err == TY_OK)
        ml_job_json(&res->body, req->arena, &job);
    json_decref(labels);
    json_decref(body);
    return err;
}

/* ---- cancel ---- */

ty_err ml_job_cancel(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    struct job job;
    ty_err err = job_find(v, req, res, &job);
    if (err == TY_OK)
        err = store_job_cancel(v->store, job.project, job.region, job.id);
    if (err == TY_FAILED_PRECONDITION)
        return ty_fail(err, "cannot cancel job '" TY_STR_FMT "': it has ended already, with %s",
                       TY_STR_ARG(req->capture[1]), ml_state_name(&job));
    if (err != TY_OK)
        return err;
    v->notify(v->notify_arg, job.id);
    ty_buf_addz(&res->body, "{}");
    return TY_OK;
}

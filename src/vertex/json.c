/* json.c -- replies: jobs and operations as JSON.
 *
 * A job's body is stored in the form it is answered in, so a reply is copying bytes: a page of 100
 * jobs parses nothing. Only a readMask, which no known client sends, takes the slow way. */
#include "vertex/vertex_int.h"

enum { JOB_BYTES = 4 << 20 }; /* one job as JSON, far above what create accepts */

static void add_time(struct ty_buf *b, const char *key, int64_t ns)
{
    char text[WIRE_TIME_BYTES];
    ty_buf_addf(b, ",\"%s\":\"%s\"", key, wire_time_format(ns, 6, text));
}

static void add_status(struct ty_buf *b, int code, ty_str message)
{
    ty_buf_addf(b, ",\"error\":{\"code\":%d,\"message\":", code);
    wire_json_string(b, message);
    ty_buf_addc(b, '}');
}

void vertex_job_name(struct ty_buf *b, const struct job *job)
{
    ty_buf_addf(b, "projects/" TY_STR_FMT "/locations/" TY_STR_FMT "/customJobs/%" PRId64,
                TY_STR_ARG(job->project), TY_STR_ARG(job->region), job->id);
}

void vertex_job_json(struct ty_buf *b, const struct job *job)
{
    ty_buf_addz(b, "{\"name\":\"");
    vertex_job_name(b, job); /* project and region passed vertex_parent_check: nothing to escape */
    ty_buf_addz(b, "\",");
    ty_buf_adds(b, job->body);
    ty_buf_addf(b, ",\"state\":\"%s\"", job_state_name(job->state));
    add_time(b, "createTime", job->create_ns);
    if (job->start_ns != 0)
        add_time(b, "startTime", job->start_ns);
    if (job->end_ns != 0)
        add_time(b, "endTime", job->end_ns);
    add_time(b, "updateTime", job->update_ns);
    if (job->error_code != 0)
        add_status(b, job->error_code, job->error_message);
    ty_buf_addc(b, '}');
}

/* The part of a mask's entry that we look at: "jobSpec.scheduling" keeps jobSpec. */
static ty_str mask_next(ty_str *rest)
{
    ty_str path, head;
    ty_str_split(rest, ',', &path);
    path = ty_str_trim(path);
    ty_str_split(&path, '.', &head);
    return head;
}

ty_err vertex_mask_read(struct http_request *req, struct http_response *res,
                        struct vertex_mask *ret_mask)
{
    ty_str text = ty_str_trim(http_query(req, "readMask")), rest = text;
    while (rest.len > 0) {
        ty_str name = mask_next(&rest);
        bool known = ty_str_is(name, "*");
        for (const struct wire_field *f = vertex_custom_job.fields; f->name != NULL; f++)
            known = known || wire_name_eq(name, ty_str_of(f->name));
        if (!known)
            return vertex_fail_field(req, res, "readMask", "a CustomJob has no field '%.80s'",
                                     ty_cstr(req->arena, name));
    }
    *ret_mask = (struct vertex_mask){text};
    return TY_OK;
}

static bool mask_has(const struct vertex_mask *mask, ty_str key)
{
    ty_str rest = mask->text;
    while (rest.len > 0) {
        ty_str name = mask_next(&rest);
        if (ty_str_is(name, "*") || wire_name_eq(name, key))
            return true;
    }
    return false;
}

void vertex_job_json_masked(struct ty_buf *b, const struct job *job, const struct vertex_mask *mask)
{
    if (mask->text.len == 0) {
        vertex_job_json(b, job);
        return;
    }
    struct ty_buf whole;
    json_t *value = NULL, *member;
    const char *key;
    void *next;
    ty_buf_init(&whole, JOB_BYTES);
    vertex_job_json(&whole, job);
    ty_assert(wire_json_parse(ty_buf_str(&whole), &value) == TY_OK);
    json_object_foreach_safe(value, next, key, member)
    {
        if (!mask_has(mask, ty_str_of(key)))
            json_object_del(value, key);
    }
    wire_json_dump(b, value);
    json_decref(value);
    ty_buf_clear(&whole);
}

/* No key beyond Google's: the Python operations client refuses what it does not know. */
void vertex_operation_json(struct ty_buf *b, const struct operation *op)
{
    char create[WIRE_TIME_BYTES], update[WIRE_TIME_BYTES];
    ty_buf_addf(
        b,
        "{\"name\":\"projects/" TY_STR_FMT "/locations/" TY_STR_FMT "/operations/%" PRId64 "\","
        "\"metadata\":{\"@type\":\"type.googleapis.com/google.cloud.aiplatform.v1." TY_STR_FMT "\","
        "\"genericMetadata\":{\"createTime\":\"%s\",\"updateTime\":\"%s\"}},"
        "\"done\":true",
        TY_STR_ARG(op->project), TY_STR_ARG(op->region), op->id, TY_STR_ARG(op->metadata_type),
        wire_time_format(op->create_ns, 6, create), wire_time_format(op->update_ns, 6, update));
    if (op->error_code != 0) {
        add_status(b, op->error_code, op->error_message);
    } else {
        ty_buf_addz(b, ",\"response\":");
        ty_buf_adds(b, op->response);
    }
    ty_buf_addc(b, '}');
}

/* match.c -- what a filter sees of an entry, and which values it may compare with.
 *
 * Cloud Logging takes any path in a filter: one that no entry has matches nothing and is no error,
 * so nothing here is ever `unknown`. Times are compared as times and severities by their number;
 * the rest as bytes. */
#include "cloudlog/cloudlog_int.h"

/* If `name` is `prefix` (fooBar or foo_bar) and something behind it: that. */
static bool name_below(ty_str name, const char *prefix, ty_str *ret_rest)
{
    size_t n = strlen(prefix);
    while (n <= name.len) { /* snake_case is longer than camelCase: find the dot that ends it */
        const char *dot = n < name.len ? memchr(name.ptr + n, '.', name.len - n) : NULL;
        if (!dot)
            return false;
        size_t head = (size_t)(dot - name.ptr);
        if (wire_name_eq((ty_str){name.ptr, head}, ty_str_of(prefix))) {
            *ret_rest = ty_str_drop(name, head + 1);
            return true;
        }
        n = head + 1;
    }
    return false;
}

/* Room for one value made for a filter; the one before is gone. */
static struct ty_buf *scratch(struct entry *e)
{
    e->scratch.len = 0;
    e->scratch.full = false;
    return &e->scratch;
}

/* A JSON value as text: strings as they are, others as written. */
static void value_text(struct entry *e, const json_t *value, ty_str *ret_value)
{
    if (json_is_string(value)) {
        *ret_value = (ty_str){json_string_value(value), json_string_length(value)};
        return;
    }
    wire_json_dump(scratch(e), value);
    *ret_value = ty_buf_str(&e->scratch);
}

/* A path in the payload; a key with dots in it is found as well. */
static const json_t *value_at(const json_t *object, ty_str path)
{
    json_t *whole = json_object_getn(object, path.ptr, path.len);
    if (whole)
        return whole;
    for (size_t n = 1; n + 1 < path.len; n++) {
        if (path.ptr[n] != '.')
            continue;
        json_t *child = json_object_getn(object, path.ptr, n);
        const json_t *found =
            json_is_object(child) ? value_at(child, ty_str_drop(path, n + 1)) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

static bool get_payload(struct entry *e, ty_str name, ty_str *ret_value)
{
    ty_str path;
    if (name.len == 0 && e->json) {
        value_text(e, e->json, ret_value);
        return true;
    }
    if (name.len == 0 || wire_name_eq(name, TY_STR("textPayload"))) {
        *ret_value = e->text;
        return name.len == 0 || !e->json;
    }
    if (!e->json)
        return false;
    const json_t *value = NULL;
    if (wire_name_eq(name, TY_STR("jsonPayload")))
        value = e->json;
    else if (name_below(name, "jsonPayload", &path))
        value = value_at(e->json, path);
    if (value)
        value_text(e, value, ret_value);
    return value != NULL;
}

static bool get_label(struct entry *e, ty_str key, ty_str *ret_value)
{
    if (ty_str_is(key, "ml.googleapis.com/task_name") || ty_str_is(key, "task_name"))
        *ret_value = ty_str_of(e->task);
    else if (ty_str_is(key, "trainyard/attempt") && e->line->attempt > 0) {
        ty_buf_addf(scratch(e), "%d", e->line->attempt);
        *ret_value = ty_buf_str(&e->scratch);
    } else
        return false;
    return true;
}

static bool get_resource(struct entry *e, ty_str name, ty_str *ret_value)
{
    if (ty_str_is(name, "type"))
        *ret_value = TY_STR("ml_job");
    else if (ty_str_is(name, "labels.task_name"))
        *ret_value = ty_str_of(e->task);
    else if (ty_str_is(name, "labels.project_id"))
        *ret_value = e->line->job->project;
    else if (ty_str_is(name, "labels.job_id"))
        *ret_value = e->job_id;
    else
        return false;
    return true;
}

static bool get_member(const struct wire_filter_row *row, ty_str name, ty_str *ret_value,
                       bool *ret_unknown)
{
    struct entry *e = row->data;
    ty_str rest;
    *ret_unknown = false;
    if (wire_name_eq(name, TY_STR("timestamp")) || wire_name_eq(name, TY_STR("receiveTimestamp")))
        *ret_value = ty_str_of(e->timestamp);
    else if (wire_name_eq(name, TY_STR("severity")))
        *ret_value = ty_str_of(e->severity);
    else if (wire_name_eq(name, TY_STR("insertId")))
        *ret_value = ty_str_of(e->insert_id);
    else if (wire_name_eq(name, TY_STR("logName"))) {
        ty_buf_addf(scratch(e), "projects/" TY_STR_FMT "/logs/%s",
                    TY_STR_ARG(e->line->job->project), e->task);
        *ret_value = ty_buf_str(&e->scratch);
    } else if (ty_str_starts(name, TY_STR("resource.")))
        return get_resource(e, ty_str_drop(name, strlen("resource.")), ret_value);
    else if (name_below(name, "labels", &rest))
        return get_label(e, rest, ret_value);
    else
        return get_payload(e, name, ret_value);
    return true;
}

static int compare_member(const struct wire_filter_row *row, ty_str name, ty_str have, ty_str want)
{
    const struct entry *e = row->data;
    int64_t want_ns;
    bool time =
        wire_name_eq(name, TY_STR("timestamp")) || wire_name_eq(name, TY_STR("receiveTimestamp"));
    if (time && wire_time_parse(want, &want_ns) == TY_OK)
        return (e->line->time_ns > want_ns) - (e->line->time_ns < want_ns);
    if (wire_name_eq(name, TY_STR("severity")) && severity_number(want) >= 0)
        return severity_number(have) - severity_number(want);
    return ty_str_cmp(have, want);
}

bool entry_matches(struct entry *e, const struct wire_filter *filter)
{
    const struct wire_filter_row row = {.get = get_member, .compare = compare_member, .data = e};
    return wire_filter_matches(filter, &row);
}

static bool any_member(const struct wire_filter_row *row, ty_str name, ty_str *ret_value,
                       bool *ret_unknown)
{
    (void)row, (void)name, (void)ret_value, (void)ret_unknown;
    return false;
}

static ty_err check_member(const struct wire_filter_row *row, ty_str name, bool order, ty_str value)
{
    (void)row, (void)order;
    int64_t ignored;
    bool time = ty_str_is(name, "timestamp") || wire_name_eq(name, TY_STR("receiveTimestamp"));
    if (!time || wire_time_parse(value, &ignored) == TY_OK)
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT, "'%.*s' is not a time like 2026-01-31T12:00:00Z",
                   (int)(value.len < 80 ? value.len : 80), value.ptr);
}

ty_err filter_check(const struct wire_filter *f)
{
    const struct wire_filter_row row = {.get = any_member, .check = check_member};
    return wire_filter_check(f, &row);
}

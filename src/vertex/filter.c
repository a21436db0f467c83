/* filter.c -- filters of lists of jobs: which members a job has, for wire's filter language.
 *
 *   display_name, name, state       text; state by its name, JOB_STATE_RUNNING. The older API (ml)
 *                                   has others: job_id, and RUNNING
 *   create_time, start_time,        RFC 3339, compared as times whatever their offset and
 *   end_time, update_time           precision
 *   labels.KEY                      text; labels:KEY asks for its presence, as labels.KEY:* does
 * Labels are parsed only when a filter asks for one. */
#include "vertex/vertex_int.h"

struct job_row {
    const struct vertex_filter_words *words;
    const struct job *job; /* NULL: the row that answers for all names */
    json_t *labels;
    struct ty_arena arena;
    char time[WIRE_TIME_BYTES];
};

static const struct {
    const char *name;
    size_t offset;
} times[] = {
    {"createTime", offsetof(struct job, create_ns)},
    {"startTime", offsetof(struct job, start_ns)},
    {"endTime", offsetof(struct job, end_ns)},
    {"updateTime", offsetof(struct job, update_ns)},
};

/* Index in `times`, or -1. */
static int time_find(ty_str name)
{
    for (size_t i = 0; i < TY_COUNT(times); i++) {
        if (wire_name_eq(name, ty_str_of(times[i].name)))
            return (int)i;
    }
    return -1;
}

static bool time_get(struct job_row *r, int n, ty_str *ret_value)
{
    int64_t ns = 1; /* the row that answers for all names has every time */
    if (r->job != NULL)
        memcpy(&ns, (const char *)r->job + times[n].offset, sizeof ns);
    if (ns == 0)
        return false;
    *ret_value = ty_str_of(wire_time_format(ns, 6, r->time));
    return true;
}

static bool label_get(struct job_row *r, ty_str key, ty_str *ret_value)
{
    if (r->labels == NULL && r->job->labels.len > 0)
        ty_assert(wire_json_parse(r->job->labels, &r->labels) == TY_OK);
    struct ty_buf name;
    ty_buf_init(&name, 1024);
    ty_buf_adds(&name, key);
    const json_t *value = key.len > 0 ? json_object_get(r->labels, name.ptr) : NULL;
    ty_buf_clear(&name);
    if (value == NULL)
        return false;
    *ret_value = (ty_str){json_string_value(value), json_string_length(value)};
    return true;
}

/* The member of the words' that is meant, or NULL. */
static const char *text_find(const struct vertex_filter_words *words, ty_str name)
{
    for (size_t i = 0; words->texts[i] != NULL; i++)
        if (wire_name_eq(name, ty_str_of(words->texts[i])))
            return words->texts[i];
    return NULL;
}

static bool row_get(const struct wire_filter_row *row, ty_str name, ty_str *ret_value,
                    bool *ret_unknown)
{
    struct job_row *r = row->data;
    ty_str head, rest = name;
    bool dotted = ty_str_split(&rest, '.', &head);
    bool label = dotted && ty_str_is(head, "labels") && rest.len > 0;
    int time = time_find(name);
    const char *text = text_find(r->words, name);
    bool map = ty_str_is(name, "labels"); /* known, and no value itself */
    bool state = ty_str_is(name, "state");
    *ret_unknown = !label && time < 0 && text == NULL && !map && !state;
    if (time >= 0)
        return time_get(r, time, ret_value);
    if (*ret_unknown || map || r->job == NULL)
        return false;
    if (label)
        return label_get(r, rest, ret_value);
    *ret_value =
        state ? ty_str_of(r->words->state(r->job)) : r->words->text(&r->arena, r->job, text);
    return true;
}

static int row_compare(const struct wire_filter_row *row, ty_str name, ty_str have, ty_str want)
{
    (void)row;
    int64_t a, b;
    if (time_find(name) < 0 || wire_time_parse(want, &b) != TY_OK ||
        wire_time_parse(have, &a) != TY_OK)
        return ty_str_cmp(have, want);
    return (a > b) - (a < b);
}

/* ---- the words of custom jobs ---- */

static ty_str custom_job_text(struct ty_arena *a, const struct job *job, const char *name)
{
    if (strcmp(name, "displayName") == 0)
        return job->display_name;
    struct ty_buf b;
    ty_buf_init(&b, 256);
    vertex_job_name(&b, job);
    ty_str text = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

static const char *custom_job_state(const struct job *job)
{
    return job_state_name(job->state);
}

static bool is_state_name(ty_str text)
{
    for (int s = JOB_STATE_QUEUED; s <= JOB_STATE_CANCELLED; s++)
        if (ty_str_is(text, job_state_name((enum job_state)s)))
            return true;
    /* States of Vertex's that no job of ours is ever in: fine to ask for, and nothing matches. */
    return ty_str_is(text, "JOB_STATE_PAUSED") || ty_str_is(text, "JOB_STATE_EXPIRED") ||
           ty_str_is(text, "JOB_STATE_UPDATING") || ty_str_is(text, "JOB_STATE_UNSPECIFIED") ||
           ty_str_is(text, "JOB_STATE_PARTIALLY_SUCCEEDED");
}

const struct vertex_filter_words vertex_words = {
    .texts = {"displayName", "name", NULL},
    .text = custom_job_text,
    .state = custom_job_state,
    .state_is_known = is_state_name,
    .state_example = "JOB_STATE_RUNNING",
};

/* ---- checking and matching ---- */

static ty_err row_check(const struct wire_filter_row *row, ty_str name, bool order, ty_str value)
{
    const struct vertex_filter_words *words = ((struct job_row *)row->data)->words;
    int64_t ignored;
    int shown = (int)(value.len < 80 ? value.len : 80);
    if (time_find(name) >= 0)
        return wire_time_parse(value, &ignored) == TY_OK
                   ? TY_OK
                   : ty_fail(TY_INVALID_ARGUMENT, "'%.*s' is not a time like 2026-01-31T12:00:00Z",
                             shown, value.ptr);
    if (order)
        return ty_fail(TY_INVALID_ARGUMENT, "'" TY_STR_FMT "' can be compared with = and != only",
                       TY_STR_ARG(name));
    if (ty_str_is(name, "state") && !memchr(value.ptr, '*', value.len) &&
        !words->state_is_known(value))
        return ty_fail(TY_INVALID_ARGUMENT, "'%.*s' is not a state like %s", shown, value.ptr,
                       words->state_example);
    return TY_OK;
}

bool vertex_filter_matches(const struct wire_filter *f, const struct vertex_filter_words *words,
                           const struct job *job)
{
    if (f == NULL)
        return true;
    struct job_row r = {.words = words, .job = job};
    struct wire_filter_row row = {.get = row_get, .compare = row_compare, .data = &r};
    bool matches = wire_filter_matches(f, &row);
    ty_arena_clear(&r.arena);
    json_decref(r.labels);
    return matches;
}

ty_err vertex_filter_read(struct http_request *req, struct http_response *res,
                          const struct vertex_filter_words *words, struct wire_filter **ret_filter)
{
    ty_str text = ty_str_trim(http_query(req, "filter"));
    struct wire_filter *f = NULL;
    if (text.len > 0) {
        struct job_row r = {.words = words};
        struct wire_filter_row row = {.get = row_get, .check = row_check, .data = &r};
        ty_err err = wire_filter_parse(req->arena, text, &f);
        if (err == TY_OK)
            err = wire_filter_check(f, &row);
        if (err != TY_OK)
            return vertex_fail_field(req, res, "filter", "%s",
                                     ty_cstr(req->arena, ty_str_of(ty_err_message())));
    }
    *ret_filter = f;
    return TY_OK;
}

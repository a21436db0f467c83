/* entry.c -- a line of a log as Cloud Logging's LogEntry.
 *
 * What a program prints on stdout is INFO, on stderr ERROR, as on Vertex. A line that is a JSON
 * object with a message is a structured entry: its `severity`, if it has one, becomes the entry's.
 *
 * insertId is the job, then 's' and the ordinal for lines from rows, 't', attempt and time for
 * lines from files: unique, and in the order in which lines of one time are given. */
#include "cloudlog/cloudlog_int.h"

#include "exec/exec.h"

#include <strings.h>

static const struct {
    const char *name;
    int number;
} severities[] = {
    {"DEFAULT", 0}, {"DEBUG", 100},    {"INFO", 200},  {"NOTICE", 300},    {"WARNING", 400},
    {"ERROR", 500}, {"CRITICAL", 600}, {"ALERT", 700}, {"EMERGENCY", 800},
};

static const char *severity_name(ty_str name)
{
    for (size_t i = 0; i < TY_COUNT(severities); i++)
        if (strlen(severities[i].name) == name.len &&
            strncasecmp(severities[i].name, name.ptr, name.len) == 0)
            return severities[i].name;
    return NULL;
}

int severity_number(ty_str name)
{
    const char *known = severity_name(name);
    int64_t number;
    for (size_t i = 0; i < TY_COUNT(severities); i++)
        if (known == severities[i].name)
            return severities[i].number;
    return ty_parse_i64(name, &number) == TY_OK && number >= 0 && number <= 800 ? (int)number : -1;
}

char *log_line_insert_id(const struct log_line *l, char out[INSERT_ID_BYTES])
{
    if (l->attempt == 0)
        snprintf(out, INSERT_ID_BYTES, "%019" PRId64 "s%010" PRId64, l->job->id, l->ordinal);
    else
        snprintf(out, INSERT_ID_BYTES, "%019" PRId64 "t%06d%016" PRIx64, l->job->id, l->attempt,
                 (uint64_t)l->time_ns);
    return out;
}

bool log_line_is_ml(const struct log_line *l)
{
    return l->words == LOG_WORDS_OWN ? l->job->ml_id.len > 0 : l->words == LOG_WORDS_ML;
}

char *log_line_task(const struct log_line *l, char out[TASK_BYTES])
{
    if (l->pool < 0)
        snprintf(out, TASK_BYTES, "service");
    else if (log_line_is_ml(l))
        exec_ml_task(l->pool, l->index, out);
    else
        snprintf(out, TASK_BYTES, "workerpool%d-%d", l->pool, l->index);
    return out;
}

int log_line_compare(const struct log_line *x, const struct log_line *y)
{
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    char a[INSERT_ID_BYTES], b[INSERT_ID_BYTES];
    return strcmp(log_line_insert_id(x, a), log_line_insert_id(y, b));
}

static void entry_structure(struct entry *e)
{
    ty_str text = ty_str_trim(e->line->text);
    if (e->line->continues || text.len < 2 || text.ptr[0] != '{')
        return;
    json_t *json;
    if (wire_json_parse(text, &json) != TY_OK)
        return;
    if (!json_is_string(json_object_get(json, "message"))) {
        json_decref(json);
        return;
    }
    const char *severity = severity_name(wire_json_get_str(json, "severity"));
    if (severity) {
        e->severity = severity;
        json_object_del(json, "severity");
    }
    e->json = json;
    e->text = wire_json_get_str(json, "message");
}

/* What we ourselves say about replicas, in the words of the older API. */
static ty_str text_in_ml_words(struct ty_arena *a, ty_str text)
{
    struct ty_buf b;
    if (memmem(text.ptr, text.len, "workerpool", strlen("workerpool")) == NULL)
        return text;
    ty_buf_init(&b, 2 * JOBLOG_TEXT_BYTES);
    exec_ml_words(&b, text);
    text = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

void entry_init(struct entry *e, const struct log_line *l)
{
    *e = (struct entry){.line = l, .text = l->text};
    ty_buf_init(&e->scratch, 2 * JOBLOG_TEXT_BYTES);
    e->severity = l->severity ? l->severity : l->stream == 'e' ? "ERROR" : "INFO";
    log_line_insert_id(l, e->insert_id);
    log_line_task(l, e->task);
    wire_time_format(l->time_ns, 9, e->timestamp);
    if (l->stream != 's')
        entry_structure(e);
    else if (log_line_is_ml(l))
        e->text = text_in_ml_words(&e->arena, l->text);
    e->job_id = log_line_is_ml(l) ? job_ml_id(&e->arena, l->job)
                                  : ty_str_of(ty_format(&e->arena, "%" PRId64, l->job->id));
}

void entry_clear(struct entry *e)
{
    json_decref(e->json);
    e->json = NULL;
    ty_buf_clear(&e->scratch);
    ty_arena_clear(&e->arena);
}

void entry_json(const struct entry *e, struct ty_buf *b)
{
    const struct job *job = e->line->job;
    struct ty_buf name;
    ty_buf_init(&name, 4096);
    ty_buf_addf(&name, "projects/" TY_STR_FMT "/logs/%s", TY_STR_ARG(job->project), e->task);
    ty_buf_addf(b, "{\"insertId\":\"%s\",\"logName\":", e->insert_id);
    wire_json_string(b, ty_buf_str(&name));
    ty_buf_clear(&name);
    ty_buf_addf(b,
                ",\"resource\":{\"type\":\"ml_job\",\"labels\":{\"job_id\":\"" TY_STR_FMT
                "\",\"project_id\":",
                TY_STR_ARG(e->job_id));
    wire_json_string(b, job->project);
    ty_buf_addf(b,
                ",\"task_name\":\"%s\"}},\"timestamp\":\"%s\",\"receiveTimestamp\":\"%s\","
                "\"severity\":\"%s\",\"labels\":{\"ml.googleapis.com/task_name\":\"%s\"",
                e->task, e->timestamp, e->timestamp, e->severity, e->task);
    if (e->line->attempt > 0)
        ty_buf_addf(b, ",\"trainyard/attempt\":\"%d\"", e->line->attempt);
    if (e->json) {
        ty_buf_addz(b, "},\"jsonPayload\":");
        wire_json_dump(b, e->json);
    } else {
        ty_buf_addz(b, "},\"textPayload\":");
        wire_json_string(b, e->text);
    }
    ty_buf_addc(b, '}');
}

/* cloudlog_int.h -- shared by the files of cloudlog.
 *
 *   service.c  lines of task "service", made from a job's rows
 *   source.c   one job's lines, rows and files together, forwards or backwards
 *   merge.c    the lines of several jobs in one order
 *   entry.c    a line as a LogEntry: severity, payload, JSON
 *   match.c    a LogEntry before a filter
 *   list.c, tail.c  the handlers */
#ifndef TY_CLOUDLOG_INT_H
#define TY_CLOUDLOG_INT_H

#include "cloudlog/cloudlog.h"
#include "joblog/joblog.h"
#include "wire/wire.h"

/* Whose names for job and task an entry has. */
enum log_words {
    LOG_WORDS_OWN, /* those of the API that made the job */
    LOG_WORDS_VERTEX,
    LOG_WORDS_ML,
};

/* One line of a job, from a file or from the rows. Text is valid until its source moves. */
struct log_line {
    int64_t time_ns;
    const struct job *job;
    int attempt;     /* 0: from the rows */
    int64_t ordinal; /* of a line from the rows: its place among them, whatever the clock did */
    const char *severity; /* of a line from the rows; NULL: by stream */
    int pool, index;      /* -1: task "service" */
    char stream;
    bool continues;
    enum log_words words;
    ty_str text;
};

/* ---- lines from rows ---- */

/* Oldest first, times strictly increasing and the same whenever asked. All memory from `a`. */
void service_lines(const struct cloudlog *c, struct ty_arena *a, const struct job *job,
                   const struct attempt *attempts, size_t attempt_count,
                   struct log_line **ret_lines, size_t *ret_count);

/* ---- one job ---- */

/* A cursor over a job's lines. Zeroed is closed. */
struct log_source {
    const struct cloudlog *log;
    struct ty_arena *arena;
    bool back;
    int64_t start_ns;
    struct job
        job; /* its numbers, project and ml_id; other strings are empty: many may be open at once */
    int *attempts; /* their numbers */
    size_t attempt_count;
    struct log_line *lines; /* from the rows */
    size_t line_count;
    size_t line_next;    /* how many of them are passed, in the direction we go */
    size_t attempt_next; /* how many attempts' files are passed or open */
    bool reading;
    struct joblog_reader reader;
    bool held; /* `line` was read from the file and not given yet */
    struct log_line line;
};
/* Lines with time >= start_ns going forwards, <= start_ns going back. The rows are read before any
 * file, so if the job is final then, its lines are all there. TY_NOT_FOUND. */
TY_NODISCARD ty_err log_source_open(struct log_source *s, const struct cloudlog *c,
                                    struct ty_arena *a, ty_str project, int64_t job_id, bool back,
                                    int64_t start_ns);
/* Going forwards: give only rows' lines after `ordinal`, whatever their times. */
void log_source_lines_after(struct log_source *s, int64_t ordinal);
/* The next line without passing it. TY_OUT_OF_RANGE, without a message: there is none. */
TY_NODISCARD ty_err log_source_peek(struct log_source *s, struct log_line *ret_line);
void log_source_pass(struct log_source *s); /* after a good peek */
void log_source_close(struct log_source *s);

/* ---- several jobs ---- */

enum { CLOUDLOG_MAX_JOBS = 1000 }; /* without a job id: this many, the first in the direction */

struct merge {
    const struct cloudlog *log;
    struct ty_arena *arena;
    ty_str project;
    bool back;
    int64_t start_ns;
    struct store_span *spans; /* in the order they come up */
    size_t span_count, span_next;
    bool cut; /* there may be more jobs */
    struct log_source **open;
    size_t open_count;
    struct log_source *given; /* whose line was given last; passed at the next call */
};
/* The lines of job `job_id`, or of the project's jobs if 0, in the order of log_line_compare or its
 * reverse. A job that is not there has no lines. Close it also after a failure. */
TY_NODISCARD ty_err cloudlog_merge(struct merge *m, const struct cloudlog *c, struct ty_arena *a,
                                   ty_str project, int64_t job_id, bool back, int64_t start_ns);
/* Valid until the next call. TY_OUT_OF_RANGE: no more. */
TY_NODISCARD ty_err merge_next(struct merge *m, struct log_line *ret_line);
void merge_close(struct merge *m);

/* ---- entries ---- */

enum { INSERT_ID_BYTES = 64, TASK_BYTES = 40 };

/* By time, then by insertId. */
int log_line_compare(const struct log_line *x, const struct log_line *y);
/* Unique, and ordered as lines of one time are. Returns out. */
char *log_line_insert_id(const struct log_line *l, char out[INSERT_ID_BYTES]);
char *log_line_task(const struct log_line *l, char out[TASK_BYTES]);
bool log_line_is_ml(const struct log_line *l); /* are its names those of the older API? */

/* 0 DEFAULT ... 800 EMERGENCY, whatever the case; -1: no severity. */
int severity_number(ty_str name);

/* A line as clients see it. */
struct entry {
    const struct log_line *line;
    const char *severity;
    json_t *json; /* the payload of a line that is a JSON object with a message; else NULL */
    ty_str text;  /* the line, or that message */
    ty_str job_id;
    struct ty_arena arena; /* for job_id, and text in other words */
    char insert_id[INSERT_ID_BYTES], task[TASK_BYTES], timestamp[WIRE_TIME_BYTES];
    struct ty_buf scratch; /* for filters */
};
void entry_init(struct entry *e, const struct log_line *l);
void entry_clear(struct entry *e);
void entry_json(const struct entry *e, struct ty_buf *b);

/* Does the filter take this entry? Members no entry has match nothing. */
/* Values that a member cannot be compared with: TY_INVALID_ARGUMENT naming the byte. */
TY_NODISCARD ty_err filter_check(const struct wire_filter *f);
bool entry_matches(struct entry *e, const struct wire_filter *filter);

/* ---- handlers ---- */

/* The job a client names, by its number or by its id in the older API, and so in which words it is
 * answered. TY_NOT_FOUND. */
TY_NODISCARD ty_err log_job_find(const struct cloudlog *c, struct ty_arena *a, ty_str project,
                                 ty_str name, int64_t *ret_id, enum log_words *ret_words);

ty_err cloudlog_list(struct http_request *req, struct http_response *res, void *ctx);
ty_err cloudlog_tail(struct http_request *req, struct http_response *res, void *ctx);

#endif

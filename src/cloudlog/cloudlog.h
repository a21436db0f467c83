/* cloudlog.h -- Cloud Logging's API over job logs: /v2/entries:list, and our own long-polled tail.
 *
 * Entries of a job are its attempts' logs (files, joblog.h) and the lines of task "service", which
 * are made from the rows when asked for (accepted, warnings, queued, started, retried, ended): they
 * need no storage and cannot disagree with the state.
 *
 * A job has names in two APIs (ml.h), and its entries have the one that was asked by: with the
 * number of a custom job, tasks are workerpool0-0; with the id of an AI Platform job,
 * master-replica-0. Where no job was named, each has those of the API that made it.
 *
 * Where to start: cloudlog_merge in merge.c; list.c and tail.c are the two handlers.
 * Who frees: requests own everything. Threads: any worker. Errors: TY_INVALID_ARGUMENT names the
 * field, or the byte of the filter; TY_NOT_FOUND (tail only: entries:list of an unknown job is
 * empty, as Google's is).
 * One test: build/test_cloudlog merge/attempts_in_order. */
#ifndef TY_CLOUDLOG_H
#define TY_CLOUDLOG_H

#include "base/base.h"
#include "http/http.h"
#include "store/store.h"

struct cloudlog {
    struct store *store;
    const char *data_dir;
    /* One sentence a line of what the job asks for and is only recorded (given by server, which
     * knows the APIs). May be NULL. */
    void (*warnings)(const struct job *job, struct ty_buf *out);
};
/* POST /v2/entries:list, and for our own command
 *
 *   GET /trainyard/v1/projects/{project}/jobs/{job}/log?after=CURSOR&task=TASK&waitMs=N&limit=M
 *   {"lines":[{"t":"NS","task":"workerpool0-0","severity":"INFO","stream":"o","text":"…"}],
 *    "state":"JOB_STATE_…","next":"CURSOR","done":bool}
 *
 * Lines after the cursor, oldest first, at most `limit` (1000 unless said). Give `next` as the next
 * `after`; without one it starts at the beginning. With none to give, a job that has not ended and
 * waitMs (at most 60000), the answer waits for a line. "continues":true marks a line that goes on
 * in the next of its task and stream. `done`: the job has ended and this was all. */
struct http_routes cloudlog_routes(struct cloudlog *c);

#endif

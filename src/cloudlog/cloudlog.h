/* cloudlog.h -- Cloud Logging's API over job logs: /v2/entries:list, and our own long-polled tail.
 *
 * Entries of a job are its attempts' logs (files, joblog.h) and the lines of task "service", which
 * are made from the rows when asked for (accepted, warnings, started, retried, ended): they need no
 * storage and cannot disagree with the state. Where to start: cloudlog_merge in merge.c. Who frees:
 * requests own everything. Threads: any worker. One test: build/test_cloudlog
 * merge/attempts_in_order. */
#ifndef TY_CLOUDLOG_H
#define TY_CLOUDLOG_H

#include "base/base.h"
#include "http/http.h"
#include "store/store.h"

struct cloudlog {
    struct store *store;
    const char *data_dir;
    /* One sentence a line of what the job asks for and is only recorded (vertex_job_warnings, given
     * by server). */
    void (*warnings)(ty_str custom_job_body, struct ty_buf *out);
};
/* POST /v2/entries:list, and GET
 * /trainyard/v1/projects/{project}/jobs/{job}/log?after=NS&task=&waitMs= for our own command:
 * {"lines":[{"t":"NS","task":"workerpool0-0","severity":"INFO","text":"…"}],"state":"JOB_STATE_…","done":bool}
 */
struct http_routes cloudlog_routes(struct cloudlog *c);

#endif

/* rules.c -- what the end of a replica means for its job: Vertex's written rules, a pure function.
 *
 *   chief ends with 0              the job has succeeded
 *   another replica ends with 0    it is done; the job goes on
 *   status 6, 11, 75, 134, 139,    looks transient: failed, the whole job may be tried again (75,
 *   or SIGABRT, SIGSEGV            EX_TEMPFAIL, is `trainyard train` that lost another worker)
 *   killed while memory ran out    failed for good (a cgroup tells it exactly: then any bad end is
 *                                  that, because often one process is killed and another gives up)
 *   another status                 user's error: failed for good
 *   another signal                 that replica is restarted in place, RULES_RESTARTS times at
 *                                  most, then as transient
 *
 * disableRetries turns restarts and retries off; restartJobOnWorkerRestart turns a restart into a
 * retry of the whole job. Failures of user code have code INVALID_ARGUMENT, as on Vertex. */
#include "exec/exec_int.h"

#include <sysexits.h>

static bool status_is_transient(int status)
{
    return status == 6 || status == 11 || status == EX_TEMPFAIL || status == 128 + SIGABRT ||
           status == 128 + SIGSEGV;
}

/* A shell reports its child's SIGKILL as status 137. */
static bool is_kill(int wait_status)
{
    return (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) ||
           (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 128 + SIGKILL);
}

/* The machine's own counter does not say whom it was: then only a SIGKILL can have been that. */
static bool ran_out_of_memory(const struct rules_exit *e)
{
    return e->out_of_memory && (e->memory_told || is_kill(e->wait_status));
}

struct rules_answer rules_decide(const struct exec_plan *plan, const struct rules_exit *e)
{
    bool may_retry = !plan->disable_retries;
    struct rules_answer failed = {RULES_FAILED, false, TY_INVALID_ARGUMENT};
    struct rules_answer transient = {RULES_FAILED, may_retry, TY_INVALID_ARGUMENT};

    if (WIFEXITED(e->wait_status) && WEXITSTATUS(e->wait_status) == 0)
        return (struct rules_answer){e->chief ? RULES_SUCCEEDED : RULES_GO_ON, false, TY_OK};
    if (ran_out_of_memory(e))
        return (struct rules_answer){RULES_FAILED, false, TY_RESOURCE_EXHAUSTED};
    if (WIFEXITED(e->wait_status))
        return status_is_transient(WEXITSTATUS(e->wait_status)) ? transient : failed;
    if (WTERMSIG(e->wait_status) == SIGABRT || WTERMSIG(e->wait_status) == SIGSEGV)
        return transient;
    if (plan->disable_retries || plan->restart_job_on_worker_restart ||
        e->restarts >= RULES_RESTARTS)
        return transient;
    return (struct rules_answer){RULES_RESTART, false, TY_OK};
}

void rules_describe(struct ty_buf *b, const struct exec_replica *r, const struct rules_exit *e)
{
    ty_buf_addf(b, "The replica workerpool%d-%d ", r->pool, r->index);
    if (ran_out_of_memory(e))
        ty_buf_addf(b, "ran out of memory and %s killed",
                    is_kill(e->wait_status) ? "was" : "one of its processes was");
    else if (WIFEXITED(e->wait_status))
        ty_buf_addf(b, "exited with a non-zero status of %d", WEXITSTATUS(e->wait_status));
    else if (sigabbrev_np(WTERMSIG(e->wait_status)))
        ty_buf_addf(b, "was ended by signal %d (SIG%s)", WTERMSIG(e->wait_status),
                    sigabbrev_np(WTERMSIG(e->wait_status)));
    else
        ty_buf_addf(b, "was ended by signal %d", WTERMSIG(e->wait_status));
    if (e->restarts > 0)
        ty_buf_addf(b, " after %d restart%s", e->restarts, e->restarts == 1 ? "" : "s");
    ty_buf_addc(b, '.');
    char limit[USAGE_TEXT_BYTES];
    if (ran_out_of_memory(e) && e->memory_limit_bytes > 0)
        ty_buf_addf(b,
                    " Its limit is %s of memory: use a machine type with more, a smaller batch, or "
                    "fewer workers.",
                    usage_bytes_text(e->memory_limit_bytes, limit));
    else if (ran_out_of_memory(e))
        ty_buf_addz(b,
                    " The machine had none left: use a smaller batch, or run fewer jobs at once.");
    else if (e->process_limit > 0)
        ty_buf_addf(b,
                    " It had reached its limit of %" PRId64
                    " processes and threads (replica_processes in trainyard.conf).",
                    e->process_limit);
}

void rules_advise(struct ty_buf *b, const struct rules_exit *e, ty_str lines)
{
    if (ran_out_of_memory(e))
        return; /* rules_describe has said what to do */
    if (WIFEXITED(e->wait_status))
        hints_add(b, HINT_STATUS, WEXITSTATUS(e->wait_status), lines);
    else
        hints_add(b, HINT_SIGNAL, WTERMSIG(e->wait_status), lines);
}

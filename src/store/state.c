/* state.c -- the job state machine, as a table. store.h draws it; apply.c enforces it. */
#include "store/store.h"

#define BIT(s) (1u << JOB_STATE_##s)

/* A row for each state: its name, and the states that may follow it.
 *
 * QUEUED and PENDING may fail without running (the wait was too long, or no attempt could be
 * started), and be cancelled at once where there is nothing to stop. A job that ran has a start
 * time, so SUCCEEDED comes only after RUNNING, or after CANCELLING (it may end well before the
 * signal arrives). Terminal states have no followers. */
static const struct {
    const char *name;
    unsigned next;
} states[] = {
    [JOB_STATE_QUEUED] = {"JOB_STATE_QUEUED",
                          BIT(PENDING) | BIT(FAILED) | BIT(CANCELLING) | BIT(CANCELLED)},
    [JOB_STATE_PENDING] = {"JOB_STATE_PENDING", BIT(QUEUED) | BIT(RUNNING) | BIT(FAILED) |
                                                    BIT(CANCELLING) | BIT(CANCELLED)},
    [JOB_STATE_RUNNING] = {"JOB_STATE_RUNNING",
                           BIT(PENDING) | BIT(SUCCEEDED) | BIT(FAILED) | BIT(CANCELLING)},
    [JOB_STATE_SUCCEEDED] = {"JOB_STATE_SUCCEEDED", 0},
    [JOB_STATE_FAILED] = {"JOB_STATE_FAILED", 0},
    [JOB_STATE_CANCELLING] = {"JOB_STATE_CANCELLING",
                              BIT(SUCCEEDED) | BIT(FAILED) | BIT(CANCELLED)},
    [JOB_STATE_CANCELLED] = {"JOB_STATE_CANCELLED", 0},
};

static bool is_state(enum job_state s)
{
    return s >= JOB_STATE_QUEUED && s <= JOB_STATE_CANCELLED;
}

const char *job_state_name(enum job_state s)
{
    return is_state(s) ? states[s].name : "JOB_STATE_UNSPECIFIED";
}

bool job_state_is_final(enum job_state s)
{
    return is_state(s) && states[s].next == 0;
}

bool job_state_may(enum job_state from, enum job_state to)
{
    return is_state(from) && is_state(to) && (states[from].next >> to & 1) != 0;
}

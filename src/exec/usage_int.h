/* usage_int.h -- control groups and what replicas use: shared by the files of exec. */
#ifndef TY_EXEC_USAGE_INT_H
#define TY_EXEC_USAGE_INT_H

#include "exec/exec.h"

#include <sys/resource.h>

/* ---- a control group for each replica (cgroup.c) ---- */

enum cgroup_part { CGROUP_MEMORY, CGROUP_CPU, CGROUP_CPUACCT, CGROUP_PIDS, CGROUP_PARTS };

/* Where groups can be made. Version 2 has one folder for all parts. */
struct cgroup_place {
    int version;              /* 1 or 2; 0: nowhere */
    char *dirs[CGROUP_PARTS]; /* NULL: that controller is not to be had */
    const char *why;          /* version 0: the reason, a sentence's end */
};
/* `root` is "" but for tests: what stands before /proc and before the mounts' paths. `settle`: make
 * our own cgroup a place if it can be one; else only say so. */
void cgroup_find(struct ty_arena *a, const char *root, bool settle, struct cgroup_place *ret_place);
/* The same by the texts of /proc/self/cgroup and mountinfo. */
void cgroup_find_in(struct ty_arena *a, const char *root, bool settle, ty_str own, ty_str mounts,
                    struct cgroup_place *ret_place);
/* The group that another process is in, by the texts of our /proc/self/cgroup, its
 * /proc/PID/cgroup and our mountinfo; to be read with the name ".". Version 0: it has none of its
 * own for both memory and CPU time. */
void cgroup_find_other(struct ty_arena *a, const char *root, ty_str own, ty_str other,
                       ty_str mounts, struct cgroup_place *ret_place);
/* "cgroup v1", "cgroup v2", or NULL for a place that is none. */
const char *cgroup_place_name(const struct cgroup_place *place);

enum { CGROUP_NAME_BYTES = 80 };
/* A group. place NULL: none. It owns no descriptor. */
struct cgroup {
    const struct cgroup_place *place;
    char name[CGROUP_NAME_BYTES];
    bool without_cpu;    /* no weight is asked for, and entering that tree takes milliseconds */
    bool memory_limited; /* the kernel holds it to its share of memory */
    bool processes_limited;
    bool outside; /* its replica could not enter: it limits and tells nothing */
};
/* Make it and set its limits (processes 0: none). On failure nothing is left of it. A limit that
 * the kernel refuses is no failure: see the two bools. */
TY_NODISCARD ty_err cgroup_make(struct cgroup *g, const struct cgroup_place *place,
                                const char *name, const struct exec_share *share,
                                int64_t processes);
/* How a new process of one thread gets into a group. Version 1: it writes to each tree's `tasks`
 * itself; that alone of all ways does not wait for a grace period of the kernel's (10 ms and more).
 * Version 2: it is born in it, by clone3's CLONE_INTO_CGROUP. */
struct cgroup_doors {
    int tasks[CGROUP_PARTS];
    size_t count;
    int folder; /* version 2's; -1: none */
};
TY_NODISCARD ty_err cgroup_doors_open(const struct cgroup *g, struct cgroup_doors *ret_doors);
/* In the child: enter. 0, or an errno. */
int cgroup_doors_enter(const struct cgroup_doors *doors);
void cgroup_doors_close(struct cgroup_doors *doors); /* closed ones stay closed */
int64_t cgroup_cpu_us(const struct cgroup *g);       /* -1: not told */
int64_t cgroup_memory_bytes(const struct cgroup *g); /* what reclaim cannot take back; -1 */
/* How many processes were killed for memory; -1: not told. */
int64_t cgroup_oom_kills(const struct cgroup *g);
bool cgroup_processes_refused(const struct cgroup *g); /* a fork failed at the limit */
/* Its processes. Returns how many there are, at most `most`. */
size_t cgroup_pids(const struct cgroup *g, pid_t *ret_pids, size_t most);
/* Kill who is left in it and remove it. */
void cgroup_remove(struct cgroup *g);
/* Note in the attempt's folder where its groups will be, before the first is made; and remove all
 * that a conductor has left there. */
TY_NODISCARD ty_err cgroup_place_note(const struct cgroup_place *place, int dirfd);
void cgroup_sweep(int dirfd, const char *mark);
/* The group's name, of an attempt's mark (attempt_mark) and "POOL-INDEX"; with "", what all names
 * of the attempt begin with. */
void cgroup_name(const char *mark, const char *who, char out[CGROUP_NAME_BYTES]);

/* ---- what a replica uses (usage.c) ---- */

enum { USAGE_EVERY_MS = 1000, USAGE_PROCESSES = 512, USAGE_TEXT_BYTES = 32 };

/* One run of a replica: from its start to its end or restart. */
struct usage {
    pid_t pid;        /* its init's; 0: only its cgroup tells */
    int64_t begin_ms; /* CLOCK_BOOTTIME */
    int64_t cpu_us, memory_bytes, peak_bytes, read_bytes, written_bytes;
};
/* Read what it uses now. */
void usage_look(struct usage *u, const struct cgroup *g);
/* waitid for its init, with what the kernel says of it and all its descendants. True: reaped, and
 * `u` is final. */
bool usage_reap(struct usage *u, const struct cgroup *g, int pidfd, siginfo_t *ret_info);

/* "1.2 GB", as machine types count it: 1024s. Returns out. */
const char *usage_bytes_text(int64_t bytes, char out[USAGE_TEXT_BYTES]);

/* ---- the file of samples (samples.c) ---- */

enum { SAMPLES_BYTES = 16 << 20, SAMPLE_BYTES = 48 };

/* Appends rounds of samples. Zeroed, with fd -1, is closed. */
struct samples {
    int fd;
    int64_t size; /* bytes of whole records */
    int64_t limit;
    int every; /* one round in so many is kept */
    int skip;  /* rounds to leave out before the next one that is kept */
};
TY_NODISCARD ty_err samples_add(struct samples *s, int dirfd, const struct exec_sample *round,
                                size_t count);
void samples_close(struct samples *s);
void sample_put(struct ty_buf *b, const struct exec_sample *s);
/* Whole records up to the first that is not one. At most `rounds` rounds, evenly thinned, the last
 * one always among them. */
void samples_parse(struct ty_arena *a, ty_str bytes, size_t rounds,
                   struct exec_sample **ret_samples, size_t *ret_count);

#endif

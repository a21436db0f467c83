/* machine.h -- machine types by name, and the machine we have.
 *
 * A machine type is a request: so many CPUs, so much memory, perhaps accelerators. machines.def has
 * the families, with Google's public numbers. The host is read once, when the server starts: CPUs
 * and memory as the kernel (or a container's limits) gives them, or as the settings machine_cpus
 * and machine_memory_bytes say; NVIDIA devices through libnvidia-ml, which is loaded, asked and let
 * go again. Sizes are in bytes, 1 GB being 2^30 as in Google's tables.
 *
 * Where to start: machine_type_find, machine_host_read. Who frees: nothing to free; names are
 * constants, texts are in the arena given. Threads: any; a host is read-only once read. Errors:
 * TY_NOT_FOUND (no such type). One test: build/test_machine type/mistyped_is_suggested. */
#ifndef TY_MACHINE_H
#define TY_MACHINE_H

#include "base/base.h"

/* ---- machine types ---- */

#define MACHINE_DEFAULT "n1-standard-4" /* what a replica weighs that names no type */

struct machine_type {
    int64_t cpu_milli; /* CPUs, thousandths */
    int64_t memory_bytes;
    int accelerators;        /* that come with it */
    const char *accelerator; /* of which type, as acceleratorType has it; NULL: none */
};
/* TY_NOT_FOUND, whose message suggests the nearest name there is. */
TY_NODISCARD ty_err machine_type_find(ty_str name, struct machine_type *ret_type);
/* Call `visit` with each name there is. */
void machine_type_visit(void (*visit)(void *arg, ty_str name), void *arg);

/* ---- the machine we have ---- */

enum { MACHINE_DEVICES = 64, MACHINE_NAME_BYTES = 96 };

struct machine_device {
    int index; /* NVML's, which is CUDA's with CUDA_DEVICE_ORDER=PCI_BUS_ID; below MACHINE_DEVICES
                */
    int64_t memory_bytes;
    char name[MACHINE_NAME_BYTES]; /* "Tesla T4" */
};
struct machine_host {
    int64_t cpu_milli;
    int64_t memory_bytes;
    int device_count;
    struct machine_device devices[MACHINE_DEVICES];
};
/* Never fails: without libnvidia-ml there are no devices; what it refuses is logged. A
 * CUDA_VISIBLE_DEVICES of numbers in our own environment is respected: others are not there. */
void machine_host_read(const struct ty_config *config, struct machine_host *ret_host);
/* What one replica may use at most: all but a reserve for the system, a sixteenth and at least 256
 * MB. */
int64_t machine_memory_ceiling(const struct machine_host *host);
/* Is the device of that acceleratorType? NVIDIA_TESLA_T4 is "Tesla T4", NVIDIA_A100_80GB any A100.
 */
bool machine_device_is(const struct machine_device *device, const char *accelerator);

/* ---- settings ---- */

enum machine_capacity { CAPACITY_SHARE, CAPACITY_FIT, CAPACITY_STRICT };
enum machine_accelerators { ACCELERATORS_CPU, ACCELERATORS_WAIT, ACCELERATORS_REFUSE };
enum machine_capacity machine_capacity(const struct ty_config *config);
enum machine_accelerators machine_accelerators(const struct ty_config *config);
/* max_running_jobs, or its default: twice the CPUs, at least 4. */
int machine_running_jobs(const struct ty_config *config, const struct machine_host *host);

/* ---- for people ---- */

/* "8 CPUs", "1 CPU", "1.5 CPUs" */
const char *machine_cpus_text(struct ty_arena *a, int64_t cpu_milli);
/* "30 GB", "3.75 GB" */
const char *machine_memory_text(struct ty_arena *a, int64_t bytes);
/* "2 CPUs, 23 GB and no GPU", "8 CPUs, 62 GB and 2 GPUs (Tesla T4)" */
const char *machine_host_text(struct ty_arena *a, const struct machine_host *host);

#endif

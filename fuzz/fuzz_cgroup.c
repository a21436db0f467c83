/* fuzz_cgroup.c -- any text as /proc/self/cgroup and mountinfo: a place or none, and nothing made.
 *
 * The two texts are parted by a NUL. Paths begin in a folder that is not there. */
#include "exec/exec_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena arena = {0};
    struct cgroup_place place;
    ty_str mounts = {(const char *)data, size}, own;
    ty_str_split(&mounts, '\0', &own);
    cgroup_find_in(&arena, "/nowhere", false, own, mounts, &place);
    ty_assert(place.version == 0);
    ty_arena_clear(&arena);
    return 0;
}

/* fuzz_objects.c -- any bytes as a glob and a name, as an object's name, a bucket's, a lifecycle.
 *
 * The first byte says how many of the following are the glob. What a check lets through must end,
 * stay in its bounds, and agree with what is asked twice. */
#include "objects/objects_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_path(ty_str name)
{
    struct objects o = {.root = (char *)"/data"};
    char path[PATH_BYTES];
    if (objects_name_check(name) != TY_OK || !nice_path(&o, TY_STR("bucket"), name, path))
        return;
    ty_str rest = ty_str_of(path), part;
    ty_assert(ty_str_starts(rest, TY_STR("bucket/")));
    bool more;
    do { /* no path leaves its bucket */
        more = ty_str_split(&rest, '/', &part);
        ty_assert(part.len > 0 && part.len <= NAME_MAX);
        ty_assert(!ty_str_is(part, ".") && !ty_str_is(part, ".."));
    } while (more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t cut = data[0] < size - 1 ? data[0] : size - 1;
    ty_str glob = {(const char *)data + 1, cut}, name = {glob.ptr + cut, size - 1 - cut};
    if (objects_glob_check(glob) == TY_OK) {
        bool matches = objects_glob_match(glob, name);
        ty_assert(matches == objects_glob_match(glob, name));
    }
    try_path(name);
    (void)!objects_bucket_name_check(name);
    (void)!lifecycle_check(name);
    return 0;
}

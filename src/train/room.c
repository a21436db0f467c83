/* room.c -- how many bytes of examples a run may keep in memory. */
#include "train/train_int.h"

enum { TEXT_BYTES = 1 << 16 };

/* The number after `key` in a file of the kernel's; `otherwise` if there is none. */
static uint64_t number_after(const char *path, const char *key, uint64_t otherwise)
{
    struct ty_arena a = {0};
    ty_str text;
    uint64_t number = otherwise;
    if (ty_file_read(AT_FDCWD, path, TEXT_BYTES, &a, &text) == TY_OK) {
        const char *at = strstr(text.ptr, key);
        char *end;
        uint64_t read = at ? strtoull(at + strlen(key), &end, 10) : 0;
        if (at && end != at + strlen(key))
            number = read;
    }
    ty_arena_clear(&a);
    return number;
}

/* What the process's control group, or one above it, still allows. */
static uint64_t group_bytes(void)
{
    struct ty_arena a = {0};
    ty_str text;
    uint64_t least = UINT64_MAX;
    if (ty_file_read(AT_FDCWD, "/proc/self/cgroup", TEXT_BYTES, &a, &text) == TY_OK &&
        ty_str_starts(text, TY_STR("0::"))) {
        ty_str line;
        text = ty_str_drop(text, 3);
        ty_str_split(&text, '\n', &line);
        char *path = ty_format(&a, "/sys/fs/cgroup" TY_STR_FMT, TY_STR_ARG(line));
        for (char *slash; (slash = strrchr(path, '/')) != NULL && strlen(path) > 14;
             *slash = '\0') {
            uint64_t limit = number_after(ty_format(&a, "%s/memory.max", path), "", UINT64_MAX);
            least = limit < least ? limit : least;
        }
    }
    ty_arena_clear(&a);
    return least;
}

size_t train_room_default(void)
{
    uint64_t free_bytes = number_after("/proc/meminfo", "MemAvailable:", 1 << 21) * 1024;
    uint64_t group = group_bytes();
    return (size_t)((free_bytes < group ? free_bytes : group) / 2);
}

bool train_room_take(_Atomic size_t *room, size_t bytes)
{
    size_t left = *room;
    while (left >= bytes)
        if (atomic_compare_exchange_weak(room, &left, left - bytes))
            return true;
    return false;
}

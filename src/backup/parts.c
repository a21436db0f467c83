/* parts.c -- which names a data folder has, and which paths a backup may have. */
#include "backup/backup_int.h"

static const struct {
    const char *name;
    enum part_kind kind;
} parts[] = {
#define PART(name_, kind_) {name_, kind_},
#include "backup/parts.def"
#undef PART
};

enum part_kind part_kind_of(ty_str name)
{
    for (size_t i = 0; i < TY_COUNT(parts); i++)
        if (ty_str_is(name, parts[i].name))
            return parts[i].kind;
    return PART_UNKNOWN;
}

bool part_at(size_t i, const char **ret_name, enum part_kind *ret_kind)
{
    if (i >= TY_COUNT(parts))
        return false;
    *ret_name = parts[i].name;
    *ret_kind = parts[i].kind;
    return true;
}

ty_err part_path_check(ty_str path, bool folder)
{
    ty_str rest = path, name, first = {0};
    int depth = 0;
    bool more = true;
    while (more) {
        more = ty_str_split(&rest, '/', &name);
        if (depth++ == 0)
            first = name;
        if (name.len == 0 || name.len > NAME_MAX || ty_str_is(name, ".") || ty_str_is(name, "..") ||
            memchr(name.ptr, '\0', name.len) || depth > BACKUP_DEPTH)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "it has a path that leads elsewhere: '" TY_STR_FMT "'",
                           TY_STR_ARG(path));
    }
    enum part_kind kind = part_kind_of(first);
    bool is_file = kind == PART_FILE || kind == PART_ROWS;
    bool is_tree = kind == PART_TREE || kind == PART_JOBS;
    if (is_tree ? depth == 1 && !folder : !is_file || depth > 1 || folder)
        return ty_fail(TY_INVALID_ARGUMENT, "it has a path that no backup has: '" TY_STR_FMT "'",
                       TY_STR_ARG(path));
    return TY_OK;
}

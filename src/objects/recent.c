/* recent.c -- rows that were looked at lately, for readers that must not wait.
 *
 * SQLite reads from the disk when it has to, and nobody can tell beforehand. So the event loop of
 * the server never asks it: here are copies of rows, good for as long as the database is what it
 * was when they were read (db_epoch), and objects_read_now answers from them what needs no wait:
 *
 *   the row      in this table; the lock is held for a copy and never across I/O
 *   the path     opened only from the kernel's name cache (RESOLVE_CACHED), on this file system
 *   the file     held against the row with fstat, as every reader does (read.c)
 *
 * On a network file system even fstat may wait, so only local ones are believed to be quick. Any
 * doubt is "later": the caller asks objects_read, on a thread that may wait, which fills the table.
 *
 * R1 A slot is used only while db_epoch is the one that was taken before its row was read: a commit
 *    that has begun, of anything, makes all slots void. So what is read here is what a reader of
 *    the database would see (O2). */
#include "objects/objects_int.h"

#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif
enum {
    XFS_MAGIC = 0x58465342,
    ZFS_MAGIC = 0x2fc12fc1,
};

bool recent_local(int fd)
{
    static const long long local[] = {EXT4_SUPER_MAGIC, BTRFS_SUPER_MAGIC,     TMPFS_MAGIC,
                                      F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, XFS_MAGIC,
                                      ZFS_MAGIC};
    struct statfs st;
    if (fstatfs(fd, &st) != 0)
        return false;
    for (size_t i = 0; i < TY_COUNT(local); i++)
        if ((long long)st.f_type == local[i])
            return true;
    return false;
}

/* ---- slots ---- */

/* The strings of a row, in an order; `count` of them. */
enum { ROW_STRINGS = 9 };
static void row_strings(struct row *row, ty_str *ret_strings[ROW_STRINGS])
{
    struct object_settings *s = &row->object.settings;
    ty_str *all[ROW_STRINGS] = {&row->object.bucket,  &row->object.name,       &s->content_type,
                                &s->content_encoding, &s->content_disposition, &s->content_language,
                                &s->cache_control,    &s->storage_class,       &s->metadata};
    memcpy(ret_strings, all, sizeof all);
}

static void row_copy(struct row *to, const struct row *from, char *text)
{
    ty_str *strings[ROW_STRINGS];
    *to = *from;
    to->stage = TY_STR("");
    row_strings(to, strings);
    for (size_t i = 0; i < ROW_STRINGS; i++) {
        if (strings[i]->len > 0)
            memcpy(text, strings[i]->ptr, strings[i]->len);
        text[strings[i]->len] = '\0'; /* as ty_str_dup has it */
        strings[i]->ptr = text;
        text += strings[i]->len + 1;
    }
}

static size_t row_text_bytes(const struct row *row)
{
    struct row copy = *row;
    ty_str *strings[ROW_STRINGS];
    size_t n = 0;
    row_strings(&copy, strings);
    for (size_t i = 0; i < ROW_STRINGS; i++)
        n += strings[i]->len + 1;
    return n;
}

void recent_put(struct objects *o, uint64_t epoch, const struct row *row)
{
    size_t bytes = row_text_bytes(row);
    if (!o->recent_usable || epoch % 2 != 0 || bytes > RECENT_BYTES || row->stage.len > 0 ||
        row->place != PLACE_NICE || !row->object.has_crc32c)
        return;
    uint64_t hash = name_hash(row->object.bucket, row->object.name);
    struct recent *slot = &o->recent[hash % RECENT_SLOTS];
    char *text = malloc(bytes);
    ty_assert(text);
    pthread_mutex_lock(&o->recent_lock);
    char *before = slot->text;
    row_copy(&slot->row, row, text);
    slot->text = text;
    slot->hash = hash;
    slot->epoch = epoch;
    pthread_mutex_unlock(&o->recent_lock);
    free(before);
}

static bool recent_get(struct objects *o, struct ty_arena *a, ty_str bucket, ty_str name,
                       struct row *ret_row)
{
    uint64_t hash = name_hash(bucket, name);
    struct recent *slot = &o->recent[hash % RECENT_SLOTS];
    pthread_mutex_lock(&o->recent_lock);
    bool good = slot->text && slot->hash == hash && slot->epoch == db_epoch(o->db) &&
                ty_str_eq(slot->row.object.bucket, bucket) &&
                ty_str_eq(slot->row.object.name, name);
    if (good)
        row_copy(ret_row, &slot->row, ty_alloc(a, row_text_bytes(&slot->row)));
    pthread_mutex_unlock(&o->recent_lock);
    return good;
}

void recent_clear(struct objects *o)
{
    for (size_t i = 0; i < RECENT_SLOTS; i++)
        free(o->recent[i].text);
}

/* ---- reading ---- */

/* False, too, where the kernel is older than RESOLVE_CACHED (5.12). */
static bool open_now(const struct objects *o, const struct row *row, int *ret_fd)
{
    char path[PATH_BYTES];
    struct open_how how = {.flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                      RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV | RESOLVE_CACHED};
    if (!nice_path(o, row->object.bucket, row->object.name, path))
        return false;
    *ret_fd = (int)syscall(SYS_openat2, o->buckets_fd, path, &how, sizeof how);
    return *ret_fd >= 0;
}

bool objects_read_now(struct objects *o, struct ty_arena *a, struct object_ref ref,
                      const struct object_conditions *conditions, struct object *ret_object,
                      int *ret_fd)
{
    struct row row;
    int fd;
    if (!o->recent_usable || ref.soft_deleted || !recent_get(o, a, ref.bucket, ref.name, &row))
        return false;
    const struct object *x = &row.object;
    if ((ref.generation != 0 && ref.generation != x->generation) ||
        conditions_check(conditions, true, x->generation, x->metageneration, true) != TY_OK ||
        !open_now(o, &row, &fd))
        return false;
    if (!row_is_file(&row, fd)) {
        close(fd);
        return false;
    }
    *ret_object = row.object;
    *ret_fd = fd;
    return true;
}

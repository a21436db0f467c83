/* backup_int.h -- shared by the files of backup. */
#ifndef TY_BACKUP_INT_H
#define TY_BACKUP_INT_H

#include "backup/backup.h"

#include "wire/wire.h"

enum {
    BACKUP_FORMAT = 1,
    BACKUP_DEPTH = 64,          /* folders in a path */
    BACKUP_ENTRIES = 100000000, /* in an archive */
    BACKUP_NOTE_BYTES = 4096,   /* our own two entries */
    TAR_BLOCK = 512,
    TAR_PATH_BYTES = 4000,
    TAR_PAX_BYTES = 8192,
    TAR_BUFFER_BYTES = 256 * 1024,
};
#define BACKUP_HEAD     "trainyard-backup"
#define BACKUP_MANIFEST "trainyard-manifest"

/* ---- parts.def ---- */

enum part_kind { PART_UNKNOWN, PART_FILE, PART_TREE, PART_JOBS, PART_ROWS, PART_SKIP };
enum part_kind part_kind_of(ty_str name); /* of a name in the data folder */
/* The part number `i` of the table; false: there are no more. */
bool part_at(size_t i, const char **ret_name, enum part_kind *ret_kind);
/* A path that a backup may have: relative, of plain names, below a part that is kept, and a file or
 * folder as that part is. TY_INVALID_ARGUMENT says what is wrong. */
TY_NODISCARD ty_err part_path_check(ty_str path, bool folder);

/* ---- tar.c ---- */

struct tar_entry {
    ty_str path; /* without a slash at its end */
    bool folder; /* else a plain file: there is nothing else */
    mode_t mode; /* permission bits */
    int64_t size;
    int64_t mtime_s;
};

/* Entries one after the other: tar_add, then exactly size bytes with tar_add_bytes. */
struct tar_writer {
    int fd;
    int64_t bytes;   /* written, and in `out` */
    int64_t left;    /* of the entry's content */
    int64_t entries; /* begun */
    size_t used;     /* of `out` */
    struct wire_sha256 hash;
    char out[TAR_BUFFER_BYTES];
};
void tar_writer_init(struct tar_writer *w, int fd);
TY_NODISCARD ty_err tar_add(struct tar_writer *w, const struct tar_entry *e);
TY_NODISCARD ty_err tar_add_bytes(struct tar_writer *w, const void *ptr, size_t len);
/* A small file with these bytes. */
TY_NODISCARD ty_err tar_add_note(struct tar_writer *w, const char *path, ty_str bytes);
/* The manifest and the end of the archive; all is with the kernel then. */
TY_NODISCARD ty_err tar_writer_finish(struct tar_writer *w);

/* Fill up to `len` bytes; *ret_len 0 is the end. */
typedef ty_err (*tar_source)(void *arg, char *ptr, size_t len, size_t *ret_len);
struct tar_reader {
    tar_source source;
    void *arg;
    int64_t offset;          /* bytes taken from the source */
    int64_t left, padding;   /* of the entry's content, and after it */
    int64_t entries;         /* begun */
    struct wire_sha256 hash; /* of all bytes before the newest entry's header */
    struct wire_sha256 running;
    char path[TAR_PATH_BYTES + 1]; /* the newest entry's */
};
void tar_reader_init(struct tar_reader *r, tar_source source, void *arg);
/* The next entry; what is left of the one before is read over. Its path is valid until the next
 * call. TY_OUT_OF_RANGE, without a message, at the end. TY_DATA_LOSS names the byte: cut short, or
 * not what tar_writer writes. */
TY_NODISCARD ty_err tar_next(struct tar_reader *r, struct tar_entry *ret_entry);
/* Up to `len` bytes of the entry's content; *ret_len 0: that was all of it. */
TY_NODISCARD ty_err tar_read(struct tar_reader *r, char *ptr, size_t len, size_t *ret_len);

/* ---- the two notes (tar.c) ---- */

/* The first entry's text. TY_FAILED_PRECONDITION: a newer format. */
TY_NODISCARD ty_err head_check(ty_str text);
/* The last entry's, after reading it: does it describe what was read? TY_DATA_LOSS. */
TY_NODISCARD ty_err manifest_check(const struct tar_reader *r, ty_str text);

#endif

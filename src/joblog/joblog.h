/* joblog.h -- the log of a job attempt: one file, all replicas merged in the order their lines
 * came.
 *
 * The file is text a person can read and grep. One record a line:
 *
 *   1795000000123456789 0-0 o hello world\n
 *   |                   |   |  the text: any bytes but newline
 *   |                   |   o stdout, e stderr, s the system's own words; capital (O, E): the line
 * goes on in the next record of that replica and stream |                   pool-index of the
 * replica 19 digits: nanoseconds since 1970, strictly increasing through the file
 *
 * Strictly increasing times are what makes the rest simple: a time is a cursor, a seek is a binary
 * search, and merging attempts is comparing numbers. A last line without a newline is not there yet
 * (a writer was killed in the middle of it). Who frees: joblog_writer_close, joblog_reader_close.
 * Threads: a writer or reader belongs to one thread; one writer a file, any number of readers, in
 * any process. Errors: TY_RESOURCE_EXHAUSTED (disk full; the record is not in the file, try again),
 * TY_NOT_FOUND. One test: build/test_joblog reader/ignores_a_torn_last_line. */
#ifndef TY_JOBLOG_H
#define TY_JOBLOG_H

#include "base/base.h"

struct joblog_record {
    int64_t time_ns;
    int pool, index; /* replica; -1, -1 for the system's own words ("-" in the file) */
    char stream;     /* 'o', 'e', 's' */
    bool continues;  /* the text goes on in a later record */
    ty_str text;
};

struct joblog_writer {
    int fd;
    int64_t last_ns;   /* time of the newest record */
    int64_t size;      /* bytes of whole records; a failed append is cut back to this */
    struct ty_buf out; /* records not yet written */
};
/* Create or continue `name` under dirfd; times continue above `floor_ns` and the file's last. A
 * torn last line is cut off. */
TY_NODISCARD ty_err joblog_writer_open(struct joblog_writer *w, int dirfd, const char *name,
                                       int64_t floor_ns);
/* Stage one record (its time is set from the clock, at least last_ns + 1). Newlines in text are the
 * caller's mistake. */
void joblog_append(struct joblog_writer *w, int pool, int index, char stream, bool continues,
                   ty_str text);
/* Write what is staged. On TY_RESOURCE_EXHAUSTED it stays staged, nothing of it is in the file. */
TY_NODISCARD ty_err joblog_flush(struct joblog_writer *w);
TY_NODISCARD ty_err joblog_sync(struct joblog_writer *w);
void joblog_writer_close(struct joblog_writer *w);

struct joblog_reader {
    int fd;
    int64_t offset;
    struct ty_buf buf;
    size_t used;
};
TY_NODISCARD ty_err joblog_reader_open(struct joblog_reader *r, int dirfd, const char *name);
/* Go to the first record with time >= time_ns. O(log size). */
TY_NODISCARD ty_err joblog_seek(struct joblog_reader *r, int64_t time_ns);
/* Next record, valid until the next call. TY_OUT_OF_RANGE, without a message, at the end (more may
 * come later: call again). TY_DATA_LOSS names the byte of a line that is no record. */
TY_NODISCARD ty_err joblog_next(struct joblog_reader *r, struct joblog_record *ret_record);
void joblog_reader_close(struct joblog_reader *r);
/* Parse one line (without newline). For the reader and the fuzz target. */
TY_NODISCARD ty_err joblog_parse(ty_str line, struct joblog_record *ret_record);
/* The last whole records of a replica, oldest first, at most `lines` and `bytes`, joined by
 * newlines: for error messages. */
TY_NODISCARD ty_err joblog_tail(int dirfd, const char *name, int pool, int index, int lines,
                                size_t bytes, struct ty_buf *out);

#endif

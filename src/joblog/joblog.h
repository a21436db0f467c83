/* joblog.h -- the log of a job attempt: one file, all replicas merged in the order their lines
 * came.
 *
 * The file is text a person can read and grep. One record a line:
 *
 *   1795000000123456789 0-0 o hello world\n
 *   |                   |   | |
 *   |                   |   | the text: any bytes but newline
 *   |                   |   o stdout, e stderr, s the system's own words; a capital
 *   |                   |   letter: the line goes on in that replica and stream's next record
 *   |                   pool-index of the replica; "-" where it is about none
 *   19 digits: nanoseconds since 1970, strictly increasing through the file
 *
 * Strictly increasing times are what makes the rest simple: a time is a cursor, a seek is a binary
 * search, and merging attempts is comparing numbers. A last line without a newline is not there yet
 * (a writer was killed in the middle of it).
 *
 * Where to start: joblog_append and joblog_flush, joblog_seek and joblog_next.
 * Who frees: joblog_writer_close, joblog_reader_close. Threads: a writer or reader belongs to one
 * thread; one writer a file, any number of readers, in any process.
 * Errors: TY_RESOURCE_EXHAUSTED (disk full: try again), TY_NOT_FOUND (no such file), TY_DATA_LOSS
 * (a line that is no record), TY_OUT_OF_RANGE (no more records).
 * One test: build/test_joblog reader/ignores_a_torn_last_line. */
#ifndef TY_JOBLOG_H
#define TY_JOBLOG_H

#include "base/base.h"

enum {
    JOBLOG_TEXT_BYTES = 1 << 20,   /* longest text of a record; longer lines are split by append */
    JOBLOG_STAGED_BYTES = 8 << 20, /* most that can wait in a writer */
};

struct joblog_record {
    int64_t time_ns;
    int pool, index; /* replica; -1, -1: about none ("-" in the file) */
    char stream;     /* 'o', 'e', 's' */
    bool continues;  /* the text goes on in a later record */
    ty_str text;
};

struct joblog_writer {
    int fd;
    int64_t last_ns; /* time of the newest record */
    int64_t size; /* bytes of whole records; a failed flush cuts the file back to whole records */
    struct ty_buf out; /* whole records not yet written; out.len tells how much waits */
    bool torn;         /* that cut failed: it comes first in the next flush */
    int64_t dropped;   /* lines that found `out` full; a record will say so */
};
/* Create or continue `name` under dirfd; times continue above `floor_ns` and the file's last. A
 * torn last line is cut off. */
TY_NODISCARD ty_err joblog_writer_open(struct joblog_writer *w, int dirfd, const char *name,
                                       int64_t floor_ns);
/* Stage one record (its time is set from the clock, at least last_ns + 1). Text with newlines
 * becomes a record a line. What would pass JOBLOG_STAGED_BYTES is dropped and counted; after the
 * next good flush the log says how many lines that were. */
void joblog_append(struct joblog_writer *w, int pool, int index, char stream, bool continues,
                   ty_str text);
/* Write what is staged. On failure the records that went in whole stay in the file (a reader may
 * have seen them), the others stay staged, and no part of a record is left: flush again later. */
TY_NODISCARD ty_err joblog_flush(struct joblog_writer *w);
TY_NODISCARD ty_err joblog_sync(struct joblog_writer *w);
void joblog_writer_close(struct joblog_writer *w); /* staged records are not written */

/* A cursor between records: next reads the one after it, prev the one before it. */
struct joblog_reader {
    int fd;
    int64_t offset;    /* of the first byte of buf in the file */
    struct ty_buf buf; /* bytes of the file */
    size_t used;       /* the cursor, in buf; always the start of a line */
};
/* Opens at the first record. */
TY_NODISCARD ty_err joblog_reader_open(struct joblog_reader *r, int dirfd, const char *name);
/* Go to the first record with time >= time_ns (INT64_MAX: the end). O(log size). */
TY_NODISCARD ty_err joblog_seek(struct joblog_reader *r, int64_t time_ns);
/* Next record, valid until the next call. TY_OUT_OF_RANGE, without a message, at the end (more may
 * come later: call again). TY_DATA_LOSS names the byte of a line that is no record; the cursor is
 * past it then, so the caller may go on. */
TY_NODISCARD ty_err joblog_next(struct joblog_reader *r, struct joblog_record *ret_record);
/* The record before the cursor, which moves to its start. Errors as joblog_next's. */
TY_NODISCARD ty_err joblog_prev(struct joblog_reader *r, struct joblog_record *ret_record);
void joblog_reader_close(struct joblog_reader *r);
/* Parse one line (without newline). For the reader and the fuzz target. */
TY_NODISCARD ty_err joblog_parse(ty_str line, struct joblog_record *ret_record);
/* The last whole records a replica printed (not the system's own words), oldest first, at most
 * `lines` and `bytes`, joined by newlines: for error messages. A last record that is longer by
 * itself gives its last `bytes`. */
TY_NODISCARD ty_err joblog_tail(int dirfd, const char *name, int pool, int index, int lines,
                                size_t bytes, struct ty_buf *out);

#endif

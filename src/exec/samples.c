/* samples.c -- what replicas used, second by second: the file `usage` of an attempt.
 *
 * Records of 48 bytes, little-endian, appended in rounds: one record for each replica that is
 * there, all with the same time.
 *
 *   bytes 0..3    crc32 of bytes 4..47
 *   bytes 4..5    pool, -1 for the preparation      bytes 6..7  index
 *   bytes 8..15   time, milliseconds since 1970
 *   bytes 16..23  CPU time since the replica's start, microseconds
 *   bytes 24..31  memory now, bytes
 *   bytes 32..39  bytes read from disk since its start
 *   bytes 40..47  bytes written
 *
 * The first record that is cut short or fails its checksum was being written when somebody died:
 * the file ends before it, and the next round is written over it.
 *
 * No file is longer than SAMPLES_BYTES. When a round would make it so, every second round is taken
 * out (a new file, renamed over the old one) and from then on only every second, fourth, ... round
 * is kept. So there are always between half and all of the rounds that fit, evenly spaced, for a
 * job of a minute as for one of a month: 4 days second by second for one replica, an hour for a
 * hundred. Nothing is synced: after a power loss the attempt is lost anyway. */
#include "exec/exec_int.h"

#include <endian.h>

/* ---- records ---- */

static void put64(unsigned char *p, int64_t value)
{
    uint64_t le = htole64((uint64_t)value);
    memcpy(p, &le, sizeof le);
}

static int64_t get64(const char *p)
{
    uint64_t le;
    memcpy(&le, p, sizeof le);
    return (int64_t)le64toh(le);
}

static int get16(const char *p)
{
    uint16_t le;
    memcpy(&le, p, sizeof le);
    return (int16_t)le16toh(le);
}

void sample_put(struct ty_buf *b, const struct exec_sample *s)
{
    unsigned char r[SAMPLE_BYTES] = {0};
    uint16_t pool = htole16((uint16_t)s->pool), index = htole16((uint16_t)s->index);
    memcpy(r + 4, &pool, sizeof pool);
    memcpy(r + 6, &index, sizeof index);
    put64(r + 8, s->time_ms);
    put64(r + 16, s->cpu_us);
    put64(r + 24, s->memory_bytes);
    put64(r + 32, s->read_bytes);
    put64(r + 40, s->written_bytes);
    uint32_t crc = htole32(journal_crc32((ty_str){(char *)r + 4, SAMPLE_BYTES - 4}));
    memcpy(r, &crc, sizeof crc);
    ty_buf_add(b, r, sizeof r);
}

/* False: not a record. */
static bool sample_get(ty_str bytes, struct exec_sample *ret)
{
    uint32_t crc;
    if (bytes.len < SAMPLE_BYTES)
        return false;
    const char *p = bytes.ptr;
    memcpy(&crc, p, sizeof crc);
    if (le32toh(crc) != journal_crc32((ty_str){p + 4, SAMPLE_BYTES - 4}))
        return false;
    *ret = (struct exec_sample){.pool = get16(p + 4),
                                .index = get16(p + 6),
                                .time_ms = get64(p + 8),
                                .cpu_us = get64(p + 16),
                                .memory_bytes = get64(p + 24),
                                .read_bytes = get64(p + 32),
                                .written_bytes = get64(p + 40)};
    return true;
}

/* ---- reading ---- */

/* How many good records there are, and in how many rounds. */
static size_t count_records(ty_str bytes, size_t *ret_rounds)
{
    struct exec_sample s;
    size_t count = 0, rounds = 0;
    int64_t time_ms = 0;
    while (sample_get(bytes, &s)) {
        rounds += count == 0 || s.time_ms != time_ms;
        time_ms = s.time_ms;
        count++;
        bytes = ty_str_drop(bytes, SAMPLE_BYTES);
    }
    *ret_rounds = rounds;
    return count;
}

void samples_parse(struct ty_arena *a, ty_str bytes, size_t rounds,
                   struct exec_sample **ret_samples, size_t *ret_count)
{
    size_t there, count = count_records(bytes, &there), kept = 0, round = 0;
    size_t every = rounds > 0 && rounds < there ? (there + rounds - 1) / rounds : 1;
    struct exec_sample *list = ty_new_array(a, struct exec_sample, count + 1), s;
    int64_t time_ms = 0;
    for (size_t i = 0; i < count && sample_get(bytes, &s); i++) {
        round += i > 0 && s.time_ms != time_ms;
        time_ms = s.time_ms;
        if ((there - 1 - round) % every == 0) /* counted from the end: the last one is in */
            list[kept++] = s;
        bytes = ty_str_drop(bytes, SAMPLE_BYTES);
    }
    *ret_samples = list;
    *ret_count = kept;
}

ty_err exec_usage_read(struct ty_arena *a, const char *data_dir, int64_t job_id, int attempt,
                       size_t rounds, struct exec_sample **ret_samples, size_t *ret_count)
{
    int dirfd;
    ty_str bytes = {0};
    ty_err err = attempt_open(data_dir, job_id, attempt, &dirfd);
    if (err == TY_OK) {
        err = ty_file_read(dirfd, "usage", SAMPLES_BYTES, a, &bytes);
        close(dirfd);
    }
    if (err != TY_OK && err != TY_NOT_FOUND)
        return err;
    samples_parse(a, bytes, rounds, ret_samples, ret_count);
    return TY_OK;
}

/* ---- writing ---- */

/* Every second round, counted from the first. */
static void thin(ty_str bytes, struct ty_buf *b)
{
    struct exec_sample s;
    int64_t time_ms = 0;
    size_t round = 0;
    for (bool first = true; sample_get(bytes, &s); first = false) {
        round += !first && s.time_ms != time_ms;
        time_ms = s.time_ms;
        if (round % 2 == 0)
            ty_buf_add(b, bytes.ptr, SAMPLE_BYTES);
        bytes = ty_str_drop(bytes, SAMPLE_BYTES);
    }
}

/* The file is full: write a thinner one and put it in its place. */
static ty_err samples_thin(struct samples *s, int dirfd)
{
    struct ty_arena a = {0};
    struct ty_buf b;
    ty_str bytes;
    int fd = -1;
    ty_buf_init(&b, SAMPLES_BYTES);
    ty_err err = ty_file_read(dirfd, "usage", SAMPLES_BYTES, &a, &bytes);
    if (err)
        goto out;
    thin(bytes, &b);
    fd = openat(dirfd, "usage.new", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    err =
        fd < 0 ? ty_fail_errno(errno, "cannot create 'usage.new'") : ty_write_all(fd, b.ptr, b.len);
    if (err == TY_OK)
        err = ty_rename_at(dirfd, "usage.new", "usage");
    if (err == TY_OK) {
        close(s->fd);
        s->fd = fd;
        fd = -1;
        s->size = (int64_t)b.len;
        s->every *= 2;
        s->skip = s->every - 1;
    }
out:
    if (fd >= 0)
        close(fd);
    ty_buf_clear(&b);
    ty_arena_clear(&a);
    return err;
}

static ty_err samples_open(struct samples *s, int dirfd)
{
    s->fd = openat(dirfd, "usage", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->fd < 0)
        return ty_fail_errno(errno, "cannot create 'usage'");
    s->every = 1;
    s->skip = 0;
    if (s->limit == 0)
        s->limit = SAMPLES_BYTES;
    return TY_OK;
}

ty_err samples_add(struct samples *s, int dirfd, const struct exec_sample *round, size_t count)
{
    struct ty_buf b;
    ty_err err = s->fd < 0 ? samples_open(s, dirfd) : TY_OK;
    if (err || s->skip-- > 0)
        return err;
    s->skip = s->every - 1;
    int64_t size = (int64_t)count * SAMPLE_BYTES;
    if (s->size + size > s->limit)
        err = s->size > 0 ? samples_thin(s, dirfd) : TY_OK;
    if (err || s->size + size > s->limit)
        return err;
    ty_buf_init(&b, SAMPLES_BYTES);
    for (size_t i = 0; i < count; i++)
        sample_put(&b, &round[i]);
    if (lseek(s->fd, s->size, SEEK_SET) < 0)
        err = ty_fail_errno(errno, "cannot seek in 'usage'");
    if (err == TY_OK)
        err = ty_write_all(s->fd, b.ptr, b.len);
    if (err == TY_OK)
        s->size += size;
    ty_buf_clear(&b);
    return err;
}

void samples_close(struct samples *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* test_joblog.c -- the log file: what is written is what is read, whatever happens to either side.
 */
#define TY_SEAM
#include "base/test.h"

#include "joblog/joblog.h"

#include <sys/mman.h>
#include <sys/resource.h>

/* A log in memory: every case has its own file and leaves nothing behind. */
struct file {
    int fd;
    char name[64];
};

static struct file file_open(const char *bytes)
{
    struct file f = {.fd = memfd_create("log", MFD_CLOEXEC)};
    assert_true(f.fd >= 0);
    snprintf(f.name, sizeof f.name, "/proc/self/fd/%d", f.fd);
    size_t len = strlen(bytes);
    assert_int_equal(write(f.fd, bytes, len), (ssize_t)len);
    return f;
}

/* The writer opens with O_NOFOLLOW and so needs a real folder. */
struct folder {
    char path[64];
    int fd;
};

static struct folder folder_open(void)
{
    struct folder d = {.path = "/tmp/test_joblog.XXXXXX"};
    assert_non_null(mkdtemp(d.path));
    d.fd = open(d.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(d.fd >= 0);
    return d;
}

static void folder_close(struct folder *d)
{
    close(d->fd);
    assert_ok(ty_remove_tree(AT_FDCWD, d->path));
}

static int64_t file_size(int dirfd, const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(dirfd, name, &st, 0), 0);
    return st.st_size;
}

static void append_bytes(int dirfd, const char *name, const char *bytes)
{
    int fd = openat(dirfd, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    close(fd);
}

static void expect_text(const struct joblog_record *r, const char *text)
{
    assert_int_equal(r->text.len, strlen(text));
    assert_memory_equal(r->text.ptr, text, r->text.len);
}

static void expect_next(struct joblog_reader *r, const char *text)
{
    struct joblog_record record;
    assert_ok(joblog_next(r, &record));
    expect_text(&record, text);
}

static void expect_prev(struct joblog_reader *r, const char *text)
{
    struct joblog_record record;
    assert_ok(joblog_prev(r, &record));
    expect_text(&record, text);
}

/* ---- records ---- */

static void record_all_parts(void **state)
{
    (void)state;
    struct joblog_record r;
    assert_ok(joblog_parse(TY_STR("1795000000123456789 1-23 e oh no"), &r));
    assert_int_equal(r.time_ns, 1795000000123456789);
    assert_int_equal(r.pool, 1);
    assert_int_equal(r.index, 23);
    assert_int_equal(r.stream, 'e');
    assert_false(r.continues);
    expect_text(&r, "oh no");
    assert_ok(joblog_parse(TY_STR("1795000000123456789 - S "), &r));
    assert_int_equal(r.pool, -1);
    assert_int_equal(r.index, -1);
    assert_int_equal(r.stream, 's');
    assert_true(r.continues);
    assert_int_equal(r.text.len, 0);
}

static void record_refuses_what_is_none(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "hello",
        "179500000012345678 0-0 o short time",
        "17950000001234567890 0-0 o long time",
        "9999999999999999999 0-0 o past 64 bits",
        "1795000000123456789",
        "1795000000123456789 0 o x",
        "1795000000123456789 0-0",
        "1795000000123456789 0-0 o",
        "1795000000123456789 0-0 x y",
        "1795000000123456789 -1-0 o y",
        "1795000000123456789 1234567-0 o y",
        "1795000000123456789  0-0 o y",
    };
    struct joblog_record r = {.time_ns = 5};
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        assert_err(TY_DATA_LOSS, joblog_parse(ty_str_of(bad[i]), &r));
        assert_int_equal(r.time_ns, 5);
    }
}

/* ---- writer ---- */

static void writer_times_increase(void **state)
{
    (void)state;
    struct folder d = folder_open();
    struct joblog_writer w;
    int64_t floor =
        ty_now_ns() + 3600 * INT64_C(1000000000); /* as after a clock set back an hour */
    assert_ok(joblog_writer_open(&w, d.fd, "log", floor));
    for (int i = 0; i < 1000; i++)
        joblog_append(&w, 0, 0, 'o', false, TY_STR("x"));
    assert_ok(joblog_flush(&w));
    joblog_writer_close(&w);
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, d.fd, "log"));
    for (int i = 0; i < 1000; i++) {
        assert_ok(joblog_next(&r, &record));
        assert_int_equal(record.time_ns, floor + 1 + i);
    }
    assert_err(TY_OUT_OF_RANGE, joblog_next(&r, &record));
    joblog_reader_close(&r);
    folder_close(&d);
}

static void writer_continues_a_file(void **state)
{
    (void)state;
    struct folder d = folder_open();
    append_bytes(d.fd, "log",
                 "5000000000000000000 0-0 o one\nnot a record\n5000000000000000001 0-0 o torn");
    struct joblog_writer w;
    assert_ok(joblog_writer_open(&w, d.fd, "log", 7));
    assert_int_equal(w.last_ns, 5000000000000000000);
    assert_int_equal(file_size(d.fd, "log"), w.size);
    joblog_append(&w, 1, 2, 'e', true, TY_STR("two"));
    assert_ok(joblog_flush(&w));
    assert_ok(joblog_sync(&w));
    joblog_writer_close(&w);
    struct ty_arena a = {0};
    ty_str bytes;
    assert_ok(ty_file_read(d.fd, "log", 4096, &a, &bytes));
    assert_string_equal(bytes.ptr, "5000000000000000000 0-0 o one\nnot a record\n"
                                   "5000000000000000001 1-2 E two\n");
    ty_arena_clear(&a);
    folder_close(&d);
}

static void writer_splits_lines_and_long_text(void **state)
{
    (void)state;
    struct folder d = folder_open();
    struct joblog_writer w;
    assert_ok(joblog_writer_open(&w, d.fd, "log", 0));
    joblog_append(&w, -1, -1, 's', false, TY_STR("a\n\nb"));
    struct ty_buf big;
    ty_buf_init(&big, 2 * JOBLOG_TEXT_BYTES);
    for (int i = 0; i < JOBLOG_TEXT_BYTES + 3; i++)
        ty_buf_addc(&big, 'z');
    joblog_append(&w, 0, 0, 'o', false, ty_buf_str(&big));
    ty_buf_clear(&big);
    assert_ok(joblog_flush(&w));
    joblog_writer_close(&w);
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, d.fd, "log"));
    expect_next(&r, "a");
    expect_next(&r, "");
    expect_next(&r, "b");
    assert_ok(joblog_next(&r, &record));
    assert_int_equal(record.text.len, JOBLOG_TEXT_BYTES);
    assert_true(record.continues);
    assert_ok(joblog_next(&r, &record));
    expect_text(&record, "zzz");
    assert_false(record.continues);
    assert_ok(joblog_prev(&r, &record));
    assert_ok(joblog_prev(&r, &record));
    assert_int_equal(record.text.len, JOBLOG_TEXT_BYTES);
    expect_prev(&r, "b");
    joblog_reader_close(&r);
    folder_close(&d);
}

/* A file size limit stands in for a full disk: it too lets the first part of a write through. */
static void writer_keeps_whole_records_when_the_disk_is_full(void **state)
{
    (void)state;
    struct folder d = folder_open();
    struct joblog_writer w;
    assert_ok(joblog_writer_open(&w, d.fd, "log", 0));
    joblog_append(&w, 0, 0, 'o', false, TY_STR("first"));
    int64_t record_bytes = (int64_t)w.out.len;
    joblog_append(&w, 0, 0, 'o', false, TY_STR("secnd"));
    joblog_append(&w, 0, 0, 'o', false, TY_STR("third"));
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){(rlim_t)(2 * record_bytes - 3), old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    ty_err err = joblog_flush(&w);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_not_equal(err, TY_OK);
    assert_int_equal(file_size(d.fd, "log"), record_bytes);
    assert_int_equal(w.size, record_bytes);
    assert_int_equal(w.out.len, 2 * record_bytes);
    assert_ok(joblog_flush(&w));
    joblog_writer_close(&w);
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, d.fd, "log"));
    expect_next(&r, "first");
    expect_next(&r, "secnd");
    expect_next(&r, "third");
    assert_err(TY_OUT_OF_RANGE, joblog_next(&r, &record));
    joblog_reader_close(&r);
    folder_close(&d);
}

static void writer_says_what_it_dropped(void **state)
{
    (void)state;
    struct folder d = folder_open();
    struct joblog_writer w;
    assert_ok(joblog_writer_open(&w, d.fd, "log", 0));
    static char line[JOBLOG_TEXT_BYTES];
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 9; i++)
        joblog_append(&w, 0, 0, 'o', false, (ty_str){line, sizeof line});
    assert_int_equal(w.dropped, 2);
    assert_ok(joblog_flush(&w));
    assert_int_equal(w.dropped, 0);
    joblog_writer_close(&w);
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, d.fd, "log"));
    assert_ok(joblog_seek(&r, INT64_MAX));
    assert_ok(joblog_prev(&r, &record));
    assert_int_equal(record.stream, 's');
    assert_true(ty_str_starts(record.text, TY_STR("2 log lines were lost here")));
    joblog_reader_close(&r);
    folder_close(&d);
}

static void writer_names_what_it_cannot_open(void **state)
{
    (void)state;
    struct joblog_writer w;
    assert_err(TY_NOT_FOUND, joblog_writer_open(&w, AT_FDCWD, "/nonexistent/log", 0));
    assert_non_null(strstr(ty_err_message(), "/nonexistent/log"));
}

/* ---- reader ---- */

static void reader_any_bytes_in_text(void **state)
{
    (void)state;
    struct folder d = folder_open();
    struct joblog_writer w;
    char text[256];
    for (int i = 0; i < 256; i++)
        text[i] = (char)(i == '\n' ? 'n' : i);
    assert_ok(joblog_writer_open(&w, d.fd, "log", 0));
    joblog_append(&w, 3, 999999, 'o', false, (ty_str){text, sizeof text});
    assert_ok(joblog_flush(&w));
    joblog_writer_close(&w);
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, d.fd, "log"));
    assert_ok(joblog_next(&r, &record));
    assert_int_equal(record.index, 999999);
    assert_int_equal(record.text.len, sizeof text);
    assert_memory_equal(record.text.ptr, text, sizeof text);
    joblog_reader_close(&r);
    folder_close(&d);
}

static void reader_ignores_a_torn_last_line(void **state)
{
    (void)state;
    struct file f = file_open("1000000000000000001 0-0 o a\n1000000000000000002 0-0 o b");
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, AT_FDCWD, f.name));
    expect_next(&r, "a");
    assert_err(TY_OUT_OF_RANGE, joblog_next(&r, &record));
    assert_err(TY_OUT_OF_RANGE, joblog_next(&r, &record));
    assert_ok(joblog_seek(&r, INT64_MAX));
    expect_prev(&r, "a");
    assert_err(TY_OUT_OF_RANGE, joblog_prev(&r, &record));
    joblog_reader_close(&r);
    close(f.fd);
}

/* The torn bytes may be cut and others written: nothing of the old ones may be left in a reader. */
static void reader_sees_what_replaced_a_torn_line(void **state)
{
    (void)state;
    struct file f = file_open("1000000000000000001 0-0 o a\n1000000000000000002 0-0 o torn");
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, AT_FDCWD, f.name));
    expect_next(&r, "a");
    assert_err(TY_OUT_OF_RANGE, joblog_next(&r, &record));
    assert_int_equal(ftruncate(f.fd, 28), 0);
    assert_int_equal(pwrite(f.fd, "1000000000000000009 0-0 o new\n", 30, 28), 30);
    expect_next(&r, "new");
    assert_int_equal(pwrite(f.fd, "1000000000000000010 0-0 o more\n", 31, 58), 31);
    expect_next(&r, "more");
    joblog_reader_close(&r);
    close(f.fd);
}

static void reader_names_a_bad_line_and_goes_on(void **state)
{
    (void)state;
    struct file f =
        file_open("1000000000000000001 0-0 o a\nrubbish\n1000000000000000002 0-0 o b\n");
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, AT_FDCWD, f.name));
    expect_next(&r, "a");
    assert_err(TY_DATA_LOSS, joblog_next(&r, &record));
    assert_non_null(strstr(ty_err_message(), "byte 28"));
    expect_next(&r, "b");
    expect_prev(&r, "b");
    assert_err(TY_DATA_LOSS, joblog_prev(&r, &record));
    assert_non_null(strstr(ty_err_message(), "byte 28"));
    expect_prev(&r, "a");
    joblog_reader_close(&r);
    close(f.fd);
}

static void reader_passes_a_line_without_end(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 8 << 20);
    ty_buf_addz(&b, "1000000000000000001 0-0 o a\n");
    for (int i = 0; i < 3 << 20; i++)
        ty_buf_addc(&b, 'x');
    ty_buf_addz(&b, "\n1000000000000000002 0-0 o b\n");
    struct file f = file_open(b.ptr);
    ty_buf_clear(&b);
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, AT_FDCWD, f.name));
    expect_next(&r, "a");
    assert_err(TY_DATA_LOSS, joblog_next(&r, &record));
    expect_next(&r, "b");
    expect_prev(&r, "b");
    assert_err(TY_DATA_LOSS, joblog_prev(&r, &record));
    assert_non_null(strstr(ty_err_message(), "byte 28"));
    expect_prev(&r, "a");
    assert_ok(joblog_seek(&r, 1000000000000000002));
    do
        assert_int_not_equal(joblog_next(&r, &record), TY_OUT_OF_RANGE);
    while (record.time_ns != 1000000000000000002);
    joblog_reader_close(&r);
    close(f.fd);
}

static void reader_missing_file(void **state)
{
    (void)state;
    struct joblog_reader r;
    assert_err(TY_NOT_FOUND, joblog_reader_open(&r, AT_FDCWD, "/nonexistent/log"));
    joblog_reader_close(&r);
}

/* ---- seek ---- */

enum { SEEK_RECORDS = 600 };
static const int64_t SEEK_BASE = 1000000000000000000;

/* Times SEEK_BASE + 10, + 20, ...; texts from nothing to 300 KiB, so that lines pass blocks and
 * probes. */
static struct file file_of_many_sizes(void)
{
    struct ty_buf b;
    ty_buf_init(&b, 64 << 20);
    for (int i = 1; i <= SEEK_RECORDS; i++) {
        ty_buf_addf(&b, "%019" PRId64 " 0-%d o ", SEEK_BASE + 10 * i, i % 3);
        int len = i % 97 == 0 ? 300000 : i % 7 == 0 ? 5000 + i : i % 50;
        for (int k = 0; k < len; k++)
            ty_buf_addc(&b, 'a');
        ty_buf_addc(&b, '\n');
    }
    ty_buf_addz(&b, "1000000000000999999 0-0 o torn");
    assert_ok(ty_buf_check(&b, "test file"));
    struct file f = file_open(b.ptr);
    ty_buf_clear(&b);
    return f;
}

static void seek_finds_every_time(void **state)
{
    (void)state;
    struct file f = file_of_many_sizes();
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, AT_FDCWD, f.name));
    for (int i = 1; i <= SEEK_RECORDS; i++) {
        assert_ok(joblog_seek(&r, SEEK_BASE + 10 * i - i % 10)); /* on the record, or between two */
        assert_ok(joblog_next(&r, &record));
        assert_int_equal(record.time_ns, SEEK_BASE + 10 * i);
    }
    assert_ok(joblog_seek(&r, 0));
    assert_ok(joblog_next(&r, &record));
    assert_int_equal(record.time_ns, SEEK_BASE + 10);
    assert_ok(joblog_seek(&r, SEEK_BASE + 10 * SEEK_RECORDS + 1));
    assert_err(TY_OUT_OF_RANGE, joblog_next(&r, &record));
    assert_ok(joblog_prev(&r, &record));
    assert_int_equal(record.time_ns, SEEK_BASE + 10 * SEEK_RECORDS);
    joblog_reader_close(&r);
    close(f.fd);
}

static void seek_then_backwards(void **state)
{
    (void)state;
    struct file f = file_of_many_sizes();
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, AT_FDCWD, f.name));
    assert_ok(joblog_seek(&r, INT64_MAX));
    for (int i = SEEK_RECORDS; i >= 1; i--) {
        assert_ok(joblog_prev(&r, &record));
        assert_int_equal(record.time_ns, SEEK_BASE + 10 * i);
    }
    assert_err(TY_OUT_OF_RANGE, joblog_prev(&r, &record));
    for (int i = 1; i <= SEEK_RECORDS; i++) {
        assert_ok(joblog_next(&r, &record));
        assert_int_equal(record.time_ns, SEEK_BASE + 10 * i);
    }
    joblog_reader_close(&r);
    close(f.fd);
}

static void seek_empty_file(void **state)
{
    (void)state;
    struct file f = file_open("");
    struct joblog_reader r;
    struct joblog_record record;
    assert_ok(joblog_reader_open(&r, AT_FDCWD, f.name));
    assert_ok(joblog_seek(&r, 5));
    assert_err(TY_OUT_OF_RANGE, joblog_next(&r, &record));
    assert_ok(joblog_seek(&r, INT64_MAX));
    assert_err(TY_OUT_OF_RANGE, joblog_prev(&r, &record));
    joblog_reader_close(&r);
    close(f.fd);
}

/* ---- tail ---- */

static const char tail_file[] = "1000000000000000001 0-0 o a\n"
                                "1000000000000000002 0-1 o other\n"
                                "1000000000000000003 0-0 e bb\n"
                                "1000000000000000004 0-0 s ours\n"
                                "1000000000000000005 0-0 o ccc\n"
                                "1000000000000000006 - s end\n"
                                "1000000000000000007 0-0 o torn";

static void expect_tail(int lines, size_t bytes, const char *want)
{
    struct file f = file_open(tail_file);
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    ty_buf_addz(&b, "");
    assert_ok(joblog_tail(AT_FDCWD, f.name, 0, 0, lines, bytes, &b));
    assert_int_equal(b.len, strlen(want));
    if (b.len > 0)
        assert_string_equal(b.ptr, want);
    ty_buf_clear(&b);
    close(f.fd);
}

static void tail_last_lines_of_a_replica(void **state)
{
    (void)state;
    expect_tail(10, 1000, "a\nbb\nccc");
    expect_tail(2, 1000, "bb\nccc");
    expect_tail(10, 6, "bb\nccc");
    expect_tail(10, 5, "ccc");
    expect_tail(10, 2, "cc");
    expect_tail(0, 100, "");
}

static void tail_missing_file(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    assert_err(TY_NOT_FOUND, joblog_tail(AT_FDCWD, "/nonexistent/log", 0, 0, 5, 100, &b));
    ty_buf_clear(&b);
}

static const struct CMUnitTest tests[] = {
    TEST("record/all_parts", record_all_parts),
    TEST("record/refuses_what_is_none", record_refuses_what_is_none),
    TEST("writer/times_increase", writer_times_increase),
    TEST("writer/continues_a_file", writer_continues_a_file),
    TEST("writer/splits_lines_and_long_text", writer_splits_lines_and_long_text),
    TEST("writer/keeps_whole_records_when_the_disk_is_full",
         writer_keeps_whole_records_when_the_disk_is_full),
    TEST("writer/says_what_it_dropped", writer_says_what_it_dropped),
    TEST("writer/names_what_it_cannot_open", writer_names_what_it_cannot_open),
    TEST("reader/any_bytes_in_text", reader_any_bytes_in_text),
    TEST("reader/ignores_a_torn_last_line", reader_ignores_a_torn_last_line),
    TEST("reader/sees_what_replaced_a_torn_line", reader_sees_what_replaced_a_torn_line),
    TEST("reader/names_a_bad_line_and_goes_on", reader_names_a_bad_line_and_goes_on),
    TEST("reader/passes_a_line_without_end", reader_passes_a_line_without_end),
    TEST("reader/missing_file", reader_missing_file),
    TEST("seek/finds_every_time", seek_finds_every_time),
    TEST("seek/then_backwards", seek_then_backwards),
    TEST("seek/empty_file", seek_empty_file),
    TEST("tail/last_lines_of_a_replica", tail_last_lines_of_a_replica),
    TEST("tail/missing_file", tail_missing_file),
};
TEST_MAIN("joblog", tests)

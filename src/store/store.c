/* store.c -- the schema of yard.db, opening it, and ids.
 *
 * What is listed is found by an index, whatever the table's size: job_place for pages of a project
 * and region (SQLite ends every index with the row's id, so it is in the order of a page, too),
 * job_active for what has not ended. "end_ns is 0" and "not in a terminal state" are the same (S3);
 * the table itself holds that. Counts by state are kept by triggers, in the transaction that
 * changes them: counting 100,000 rows would take longer than a page of /metrics may.
 *
 * AUTOINCREMENT is for sqlite_sequence, where the largest id ever used outlives the deletion of its
 * row: an id names a folder and logs, so none is given twice, even if the clock went back. */
#include "store/store_int.h"

static const char format_1[] =
    "CREATE TABLE job ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 7),"
    " create_ns INTEGER NOT NULL, start_ns INTEGER NOT NULL DEFAULT 0,"
    " end_ns INTEGER NOT NULL DEFAULT 0, update_ns INTEGER NOT NULL,"
    " error_code INTEGER NOT NULL DEFAULT 0, cancel_requested INTEGER NOT NULL DEFAULT 0,"
    " replicas INTEGER NOT NULL, attempt INTEGER NOT NULL DEFAULT 0,"
    " retries INTEGER NOT NULL DEFAULT 0, ran_ms INTEGER NOT NULL DEFAULT 0,"
    " wait_boot_ms INTEGER NOT NULL, boot_id TEXT NOT NULL,"
    " project TEXT NOT NULL, region TEXT NOT NULL,"
    " display_name TEXT NOT NULL, labels TEXT NOT NULL,"
    " wait_reason TEXT NOT NULL DEFAULT '', error_message TEXT NOT NULL DEFAULT '',"
    " body TEXT NOT NULL,"
    " CHECK ((end_ns > 0) = (state IN (4, 5, 7))));"
    "CREATE INDEX job_place ON job (project, region);"
    "CREATE INDEX job_active ON job (id) WHERE end_ns = 0;"

    "CREATE TABLE job_count (state INTEGER PRIMARY KEY, jobs INTEGER NOT NULL);"
    "INSERT INTO job_count VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0);"
    "CREATE TRIGGER job_count_insert AFTER INSERT ON job BEGIN"
    " UPDATE job_count SET jobs = jobs + 1 WHERE state = NEW.state; END;"
    "CREATE TRIGGER job_count_delete AFTER DELETE ON job BEGIN"
    " UPDATE job_count SET jobs = jobs - 1 WHERE state = OLD.state; END;"
    "CREATE TRIGGER job_count_update AFTER UPDATE OF state ON job"
    " WHEN OLD.state <> NEW.state BEGIN"
    " UPDATE job_count SET jobs = jobs - 1 WHERE state = OLD.state;"
    " UPDATE job_count SET jobs = jobs + 1 WHERE state = NEW.state; END;"

    "CREATE TABLE attempt ("
    " job_id INTEGER NOT NULL, number INTEGER NOT NULL,"
    " state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 3),"
    " start_ns INTEGER NOT NULL, running_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,"
    " ports TEXT NOT NULL, outcome TEXT NOT NULL, message TEXT NOT NULL,"
    " PRIMARY KEY (job_id, number)) WITHOUT ROWID;"

    "CREATE TABLE operation ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " project TEXT NOT NULL, region TEXT NOT NULL, metadata_type TEXT NOT NULL,"
    " response TEXT NOT NULL, error_code INTEGER NOT NULL, error_message TEXT NOT NULL,"
    " create_ns INTEGER NOT NULL, update_ns INTEGER NOT NULL);"
    "CREATE INDEX operation_place ON operation (project, region);";

static const char format_2[] = "ALTER TABLE attempt ADD COLUMN devices TEXT NOT NULL DEFAULT '';";

/* Jobs of the older AI Platform API: store.h, ml_id. */
static const char format_3[] = "ALTER TABLE job ADD COLUMN ml_id TEXT NOT NULL DEFAULT '';"
                               "ALTER TABLE job ADD COLUMN ml_input TEXT NOT NULL DEFAULT '';"
                               "CREATE UNIQUE INDEX job_ml ON job (project, ml_id)"
                               " WHERE ml_id <> '';";

/* A new format is a new script at the end; those before it never change. */
static const char *const migrations[] = {format_1, format_2, format_3, NULL};

/* Ids have 19 digits, as Vertex's do, also on a machine whose clock was never set. */
static const int64_t least_id = 1000000000000000000;

int64_t store_next_id(struct store *s)
{
    int64_t now_ns = ty_now_ns();
    s->last_id = now_ns > s->last_id ? now_ns : s->last_id + 1;
    return s->last_id;
}

static ty_err last_id_fn(struct db_conn *c, void *arg)
{
    struct store *s = arg;
    struct db_stmt *q;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT max(seq) FROM sqlite_sequence", &q);
    if (err == TY_OK)
        err = db_step(q, &row);
    if (err == TY_OK && row && db_column_i64(q, 0) > s->last_id)
        s->last_id = db_column_i64(q, 0);
    return err;
}

/* Empty where the kernel does not say: then every wait is taken to be of this boot. */
static void read_boot_id(struct store *s)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, s->boot_id, sizeof(s->boot_id) - 1);
    close(fd);
    s->boot_id[n > 0 ? n : 0] = '\0';
    s->boot_id[strcspn(s->boot_id, "\n")] = '\0';
}

ty_err store_open(const char *data_dir, struct store **ret_store)
{
    struct ty_arena a = {0};
    struct store *s = calloc(1, sizeof(*s));
    ty_assert(s);
    s->last_id = least_id;
    read_boot_id(s);
    ty_err err = db_open(ty_format(&a, "%s/yard.db", data_dir), migrations, &s->db);
    if (err == TY_OK)
        err = db_read(s->db, last_id_fn, s);
    if (err == TY_OK)
        *ret_store = s;
    else
        store_close(s);
    ty_arena_clear(&a);
    return err;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    db_close(s->db);
    free(s);
}

ty_str store_boot_id(const struct store *s)
{
    return ty_str_of(s->boot_id);
}

/* ---- text that came from outside ---- */

/* The bytes of the character at the start, or 0 if there is none. */
static size_t character_bytes(ty_str s)
{
    for (size_t n = 1; n <= 4 && n <= s.len; n++)
        if (ty_utf8_valid((ty_str){s.ptr, n}))
            return n;
    return 0;
}

ty_str store_clean_text(struct ty_arena *a, ty_str text, size_t limit)
{
    if (text.len <= limit && ty_utf8_valid(text))
        return text;
    char *out = ty_alloc(a, (text.len < limit ? text.len : limit) + 1);
    size_t len = 0;
    while (text.len > 0) {
        size_t n = character_bytes(text);
        size_t take = n > 0 ? n : 1;
        if (len + take > limit)
            break;
        if (n > 0)
            memcpy(out + len, text.ptr, n);
        else
            out[len] = '?';
        len += take;
        text = ty_str_drop(text, take);
    }
    return (ty_str){out, len};
}

/* list.c -- pages of names, in byte order.
 *
 * A page is a walk along the key from where the last one ended: (name, generation), which is what a
 * token holds. A delimiter makes leaps: after a name that falls under "a/b/", the walk goes on
 * behind everything that begins so. No page reads more than OBJECTS_PAGE_ROWS rows, whatever the
 * glob; one that would ends early, with a token.
 *
 * Then the page is held against the disk: the files it names, and the folders between its first and
 * last name. If something had changed there the rows follow, and the page is read once more.
 *
 * At last, where the query wants it, items that lack hashes get them: the smallest first, as far as
 * the query's bytes go. What is left is for the scan thread. */
#include "objects/objects_int.h"

#include "wire/wire.h"

enum { LIST_ROUNDS = 64 }; /* many new names make the page's end come nearer, round by round */

struct position {
    ty_str name;
    int64_t generation; /* strictly after this one of that name */
};

struct walk {
    struct objects *o;
    struct ty_arena *arena;
    const struct object_query *query;
    size_t limit;
    int64_t bucket_id;
    struct bucket_row bucket;
    struct position from; /* where the page begins */
    struct position at;   /* after the last entry taken */
    ty_str below;         /* where the list ends */
    size_t looked;
    struct row *rows; /* items first to last, and for each prefix the row that made it */
    bool *is_item;
    size_t row_count;
    struct object_page page;
    bool more;
};

/* ---- tokens: base64 of "<generation>:<name>" ---- */

static ty_str token_make(struct ty_arena *a, const struct position *at)
{
    struct ty_buf b;
    ty_buf_init(&b, OBJECTS_TOKEN_BYTES);
    ty_str text =
        ty_str_of(ty_format(a, "%" PRId64 ":" TY_STR_FMT, at->generation, TY_STR_ARG(at->name)));
    wire_base64_encode(&b, text);
    ty_str token = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return token;
}

static ty_err token_read(struct ty_arena *a, ty_str token, struct position *ret_at)
{
    ty_str text, number;
    struct position at;
    bool fine = token.len < OBJECTS_TOKEN_BYTES && wire_base64_decode(a, token, &text) == TY_OK &&
                ty_str_split(&text, ':', &number) &&
                ty_parse_i64(number, &at.generation) == TY_OK && text.len <= OBJECTS_NAME_BYTES + 1;
    if (!fine)
        return ty_fail(TY_INVALID_ARGUMENT, "pageToken: is none that a list has given");
    at.name = text;
    *ret_at = at;
    return TY_OK;
}

/* ---- bounds ---- */

/* Everything that begins with `prefix` sorts below this: no UTF-8 has the byte 0xff. */
static ty_str after_prefix(struct ty_arena *a, ty_str prefix)
{
    return ty_str_of(ty_format(a, TY_STR_FMT "\xff", TY_STR_ARG(prefix)));
}

/* The part of a glob before its first special character. */
static ty_str glob_prefix(ty_str glob)
{
    size_t n = 0;
    while (n < glob.len && !strchr("*?[{", glob.ptr[n]))
        n++;
    return (ty_str){glob.ptr, n};
}

static ty_str larger(ty_str a, ty_str b)
{
    return ty_str_cmp(a, b) >= 0 ? a : b;
}

static ty_err walk_bounds(struct walk *x)
{
    const struct object_query *q = x->query;
    ty_str first = larger(larger(q->prefix, q->start), glob_prefix(q->glob));
    x->from = (struct position){.name = first, .generation = -1};
    x->below = after_prefix(x->arena, q->prefix);
    if (q->end.len > 0 && ty_str_cmp(q->end, x->below) < 0)
        x->below = q->end;
    if (q->token.len == 0)
        return TY_OK;
    struct position at;
    ty_err err = token_read(x->arena, q->token, &at);
    if (err == TY_OK && ty_str_cmp(at.name, first) >= 0)
        x->from = at;
    return err;
}

static ty_err query_check(const struct object_query *q)
{
    const ty_str texts[] = {q->prefix, q->delimiter, q->start, q->end};
    for (size_t i = 0; i < TY_COUNT(texts); i++)
        if (texts[i].len > OBJECTS_NAME_BYTES ||
            (texts[i].len > 0 && memchr(texts[i].ptr, '\0', texts[i].len)))
            return ty_fail(TY_INVALID_ARGUMENT,
                           "prefix, delimiter, startOffset and endOffset have at most %d bytes",
                           OBJECTS_NAME_BYTES);
    return q->glob.len > 0 ? objects_glob_check(q->glob) : TY_OK;
}

/* ---- the walk ---- */

#define WHERE_NAMES                                                                                \
    " WHERE bucket = ?1 AND name >= ?2 AND name < ?3 AND (name, generation) > (?2, ?4)"

static ty_err walk_start(struct db_conn *c, struct walk *x, struct db_stmt **ret_stmt)
{
    const char *sql = "SELECT " ROW_COLUMNS " FROM object" WHERE_NAMES " ORDER BY name";
    if (x->query->soft_deleted)
        sql =
            "SELECT " ROW_COLUMNS " FROM old" WHERE_NAMES " AND soft = 1 ORDER BY name, generation";
    else if (x->query->versions)
        sql = "SELECT " ROW_COLUMNS " FROM object" WHERE_NAMES " UNION ALL SELECT " ROW_COLUMNS
              " FROM old" WHERE_NAMES " AND soft = 0 ORDER BY name, generation";
    ty_err err = db_prepare(c, sql, ret_stmt);
    if (err != TY_OK)
        return err;
    db_bind_i64(*ret_stmt, 1, x->bucket_id);
    db_bind_str(*ret_stmt, 2, x->at.name);
    db_bind_str(*ret_stmt, 3, x->below);
    db_bind_i64(*ret_stmt, 4, x->at.generation);
    return TY_OK;
}

/* The part of the name up to and with the first delimiter behind the prefix; empty: there is none.
 */
static ty_str common_prefix(const struct object_query *q, ty_str name)
{
    if (q->delimiter.len == 0 || name.len <= q->prefix.len)
        return TY_STR("");
    const char *p = memmem(name.ptr + q->prefix.len, name.len - q->prefix.len, q->delimiter.ptr,
                           q->delimiter.len);
    return p ? (ty_str){name.ptr, (size_t)(p - name.ptr) + q->delimiter.len} : TY_STR("");
}

static void take_item(struct walk *x, struct db_stmt *s)
{
    struct row *row = &x->rows[x->row_count];
    row_load(s, x->arena, row);
    x->is_item[x->row_count++] = true;
    x->page.item_count++;
    bool all = x->query->versions || x->query->soft_deleted;
    x->at = (struct position){row->object.name, all ? row->object.generation : INT64_MAX};
}

static void take_prefix(struct walk *x, struct db_stmt *s, ty_str common)
{
    row_load(s, x->arena, &x->rows[x->row_count]);
    x->is_item[x->row_count++] = false;
    common = ty_str_dup(x->arena, common);
    x->page.prefixes[x->page.prefix_count++] = common;
    x->at = (struct position){after_prefix(x->arena, common), -1};
}

/* One row. *ret_leap: the walk goes on from x->at. */
static void walk_row(struct walk *x, struct db_stmt *s, bool *ret_leap)
{
    const struct object_query *q = x->query;
    ty_str name = db_column_str(s, 1);
    *ret_leap = false;
    if (q->glob.len > 0 && !objects_glob_match(q->glob, name))
        return;
    ty_str common = common_prefix(q, name);
    bool trailing = q->include_trailing_delimiter && common.len == name.len;
    size_t wanted = (common.len == 0 || trailing) + (size_t)(common.len > 0);
    if (x->page.item_count + x->page.prefix_count + wanted > x->limit && x->row_count > 0) {
        x->more = true;
        return;
    }
    if (common.len == 0 || trailing)
        take_item(x, s);
    if (common.len > 0) {
        take_prefix(x, s, common);
        *ret_leap = true;
    }
}

static ty_err walk_fn(struct db_conn *c, void *arg)
{
    struct walk *x = arg;
    struct bucket_row b;
    struct db_stmt *s;
    ty_err err = bucket_find(c, x->arena, x->query->bucket, &b);
    if (err != TY_OK)
        return err;
    x->bucket_id = b.id;
    x->bucket = b;
    bool leap = true, row = false;
    while (err == TY_OK && !x->more) {
        if (leap)
            err = walk_start(c, x, &s);
        if (err == TY_OK)
            err = db_step(s, &row);
        if (err != TY_OK || !row)
            break;
        if (++x->looked > OBJECTS_PAGE_ROWS) { /* this one is for the next page */
            x->at = (struct position){ty_str_dup(x->arena, db_column_str(s, 1)),
                                      db_column_i64(s, 2) - 1};
            x->more = true;
            break;
        }
        walk_row(x, s, &leap);
    }
    return err;
}

static ty_err walk_page(struct walk *x)
{
    x->at = x->from;
    x->looked = x->row_count = 0;
    x->more = false;
    x->page = (struct object_page){.prefixes = ty_new_array(x->arena, ty_str, x->limit + 1)};
    return bucket_explain(x->o, x->query->bucket, db_read(x->o->db, walk_fn, x));
}

/* ---- the page and the disk ---- */

struct drift {
    struct objects *o;
    struct walk *walk;
    size_t *which; /* rows that are not what the disk has */
    struct seen *seen;
    size_t count;
    struct ty_arena arena;
};

static ty_err drift_fn(struct db_conn *c, void *arg)
{
    struct drift *x = arg;
    ty_err err = TY_OK;
    for (size_t i = 0; i < x->count && err == TY_OK; i++) {
        ty_str name = x->walk->rows[x->which[i]].object.name;
        struct row row;
        bool found = false;
        err = row_find_live(c, &x->arena, x->walk->bucket_id, name, &row, &found);
        if (err == TY_OK)
            err = row_follow(c, x->o, x->walk->bucket_id, name, &x->seen[i], &row, &found);
    }
    return err;
}

/* Claimed, so that nobody is putting the file there while it is looked at; a claimed one is left to
 * who has it. */
static ty_err drift_follow(struct drift *x)
{
    uint64_t *claims = ty_new_array(&x->arena, uint64_t, x->count);
    size_t kept = 0;
    bool young = false;
    for (size_t i = 0; i < x->count; i++) {
        ty_str name = x->walk->rows[x->which[i]].object.name;
        uint64_t claim = name_hash(x->walk->query->bucket, name);
        if (!claim_try(x->o, claim))
            continue;
        claims[kept] = claim;
        x->which[kept] = x->which[i];
        int64_t age_ns = ty_now_ns() - x->seen[i].mtime_ns;
        young = young || (x->seen[i].kind == SEEN_FILE && age_ns >= 0 && age_ns < FRESH_NS);
        kept++;
    }
    if (young) /* a write in the same tick would not show: let the tick pass */
        usleep(FRESH_NS / 1000);
    x->count = kept;
    struct viewer viewer = {.o = x->o, .bucket = x->walk->query->bucket, .dir = -1};
    for (size_t i = 0; i < kept; i++)
        x->seen[i] = viewer_see(&viewer, x->walk->rows[x->which[i]].object.name);
    viewer_end(&viewer);
    ty_err err = kept > 0 ? write_freeing(x->o, drift_fn, x) : TY_OK;
    while (kept > 0)
        claim_release(x->o, claims[--kept], 0);
    return err;
}

static ty_err walk_compare(struct walk *x)
{
    struct drift d = {.o = x->o, .walk = x};
    d.which = ty_new_array(&d.arena, size_t, x->row_count);
    d.seen = ty_new_array(&d.arena, struct seen, x->row_count);
    struct viewer viewer = {.o = x->o, .bucket = x->query->bucket, .dir = -1};
    for (size_t i = 0; i < x->row_count; i++) {
        const struct row *row = &x->rows[i];
        if (row->object.delete_ns != 0 || (row->place != PLACE_NICE && row->place != PLACE_DIR))
            continue;
        d.seen[d.count] = viewer_see(&viewer, row->object.name);
        if (row_judge(row, &d.seen[d.count]) != VERDICT_SAME)
            d.which[d.count++] = i;
    }
    viewer_end(&viewer);
    ty_err err = d.count > 0 ? drift_follow(&d) : TY_OK;
    ty_arena_clear(&d.arena);
    if (err == TY_OK && !x->query->soft_deleted)
        err = folders_check(x->o, x->query->bucket, x->bucket_id, x->from.name,
                            x->more ? x->at.name : x->below, ty_str_is(x->query->delimiter, "/"));
    return err;
}

/* ---- hashes ---- */

static int by_size(const void *a, const void *b)
{
    const struct row *const *x = a, *const *y = b;
    return ((*x)->object.size > (*y)->object.size) - ((*x)->object.size < (*y)->object.size);
}

static ty_err walk_hash(struct walk *x)
{
    struct row **rows = ty_new_array(x->arena, struct row *, x->row_count);
    size_t count = 0, fit = 0;
    for (size_t i = 0; i < x->row_count; i++)
        if (x->is_item[i] && !x->rows[i].object.has_crc32c)
            rows[count++] = &x->rows[i];
    if (count == 0)
        return TY_OK;
    qsort(rows, count, sizeof(struct row *), by_size);
    int64_t left = x->query->hash_bytes;
    while (fit < count && rows[fit]->object.size <= left)
        left -= rows[fit++]->object.size;
    if (fit < count)
        objects_scan_soon(x->o);
    return rows_hash(x->o, x->query->bucket, rows, fit);
}

static void walk_result(struct walk *x, struct object_page *ret_page)
{
    struct object_page *page = &x->page;
    page->items = ty_new_array(x->arena, struct object, page->item_count);
    size_t n = 0;
    for (size_t i = 0; i < x->row_count; i++) {
        if (!x->is_item[i])
            continue;
        page->items[n] = x->rows[i].object;
        object_set_end(&page->items[n], &x->bucket);
        page->items[n++].bucket = x->query->bucket;
    }
    page->next_token = x->more ? token_make(x->arena, &x->at) : TY_STR("");
    *ret_page = *page;
}

ty_err objects_list(struct objects *o, struct ty_arena *a, const struct object_query *query,
                    struct object_page *ret_page)
{
    struct walk x = {.o = o, .arena = a, .query = query};
    x.limit = query->limit == 0 || query->limit > OBJECTS_PAGE ? OBJECTS_PAGE : query->limit;
    ty_err err = query_check(query);
    if (err == TY_OK)
        err = walk_bounds(&x);
    if (err != TY_OK)
        return err;
    x.rows = ty_new_array(a, struct row, x.limit + 2);
    x.is_item = ty_new_array(a, bool, x.limit + 2);
    uint64_t before, after = 0;
    for (int i = 0; i < LIST_ROUNDS; i++) {
        before = __atomic_load_n(&o->followed, __ATOMIC_RELAXED);
        err = walk_page(&x);
        if (err == TY_OK)
            err = walk_compare(&x);
        after = __atomic_load_n(&o->followed, __ATOMIC_RELAXED);
        if (err != TY_OK || after == before)
            break;
    }
    if (err == TY_OK && query->hash_bytes > 0)
        err = walk_hash(&x);
    if (err == TY_OK)
        walk_result(&x, ret_page);
    return err;
}

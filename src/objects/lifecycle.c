/* lifecycle.c -- what goes by itself: lifecycle rules, soft-deleted objects, old sessions.
 *
 * A bucket's lifecycle is kept as the JSON the client gave, and is checked when it is set: an
 * action or condition that we would not follow is refused then, not ignored later. Conditions of a
 * rule are ANDed; a rule without any would delete everything, and is refused. */
#include "objects/objects_int.h"

#include "wire/wire.h"

enum { DAY_S = 86400 };

struct rule {
    bool deletes;            /* else: AbortIncompleteMultipartUpload, of which there are none */
    int64_t age_days, newer; /* -1: not given */
    int64_t created_before_ns;
    int live;                          /* -1: either */
    const json_t *prefixes, *suffixes; /* arrays, or NULL */
    const json_t *classes;
};

/* ---- reading rules ---- */

static ty_err rule_bad(size_t i, const char *what, const char *key)
{
    return ty_fail(TY_INVALID_ARGUMENT, "lifecycle.rule[%zu].%s: %s", i, key, what);
}

static bool is_strings(const json_t *value)
{
    const json_t *item;
    size_t i;
    json_array_foreach (value, i, item)
        if (!json_is_string(item))
            return false;
    return json_is_array(value) && json_array_size(value) > 0;
}

static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) <= 1000000;
}

static ty_err condition_read(size_t i, const char *key, const json_t *value, struct rule *r)
{
    bool fine = true;
    if (strcmp(key, "age") == 0 && (fine = is_count(value)))
        r->age_days = json_integer_value(value);
    else if (strcmp(key, "numNewerVersions") == 0 && (fine = is_count(value)))
        r->newer = json_integer_value(value);
    else if (strcmp(key, "isLive") == 0 && (fine = json_is_boolean(value)))
        r->live = json_is_true(value);
    else if (strcmp(key, "matchesPrefix") == 0 && (fine = is_strings(value)))
        r->prefixes = value;
    else if (strcmp(key, "matchesSuffix") == 0 && (fine = is_strings(value)))
        r->suffixes = value;
    else if (strcmp(key, "matchesStorageClass") == 0 && (fine = is_strings(value)))
        r->classes = value;
    else if (strcmp(key, "createdBefore") == 0 && (fine = json_is_string(value))) {
        char time[64]; /* a date */
        snprintf(time, sizeof time, "%sT00:00:00Z", json_string_value(value));
        fine = wire_time_parse(ty_str_of(time), &r->created_before_ns) == TY_OK;
    } else if (fine)
        return rule_bad(i, "this condition is not known here", key);
    return fine ? TY_OK : rule_bad(i, "has a value of the wrong kind", key);
}

static ty_err rule_read(size_t i, const json_t *value, struct rule *r)
{
    *r = (struct rule){.age_days = -1, .newer = -1, .live = -1};
    ty_str type = wire_json_get_str(json_object_get(value, "action"), "type");
    r->deletes = ty_str_is(type, "Delete");
    if (!r->deletes && !ty_str_is(type, "AbortIncompleteMultipartUpload"))
        return rule_bad(i,
                        "must be Delete or AbortIncompleteMultipartUpload, the actions known here "
                        "(SetStorageClass is not: here is only one class of storage)",
                        "action.type");
    const json_t *condition = json_object_get(value, "condition"), *part;
    if (json_object_size(condition) == 0)
        return rule_bad(i, "must not be empty: all objects would be deleted", "condition");
    ty_err err = TY_OK;
    const char *key;
    json_object_foreach ((json_t *)condition, key, part) {
        if (err == TY_OK)
            err = condition_read(i, key, part, r);
    }
    return err;
}

/* *ret_json holds what the rules point into; the caller drops it, also after a failure. */
static ty_err rules_read(ty_str lifecycle, json_t **ret_json, struct rule rules[OBJECTS_RULES],
                         size_t *ret_count)
{
    ty_err err = wire_json_parse(lifecycle, ret_json);
    if (err != TY_OK)
        return ty_wrap(err, "lifecycle");
    const json_t *list = json_object_get(*ret_json, "rule"), *item;
    size_t i, count = 0;
    if (list && (!json_is_array(list) || json_array_size(list) > OBJECTS_RULES))
        return ty_fail(TY_INVALID_ARGUMENT, "lifecycle.rule: must be a list of at most %d rules",
                       OBJECTS_RULES);
    json_array_foreach (list, i, item) {
        if (err == TY_OK)
            err = rule_read(i, item, &rules[count++]);
    }
    *ret_count = count;
    return err;
}

ty_err lifecycle_check(ty_str lifecycle)
{
    struct rule rules[OBJECTS_RULES];
    json_t *json = NULL;
    size_t count;
    ty_err err = rules_read(lifecycle, &json, rules, &count);
    json_decref(json);
    return err;
}

/* ---- following them ---- */

struct newer {
    ty_str bucket;
    const struct object *object;
    struct ty_arena arena;
    int64_t count;
};

static ty_err newer_fn(struct db_conn *c, void *arg)
{
    struct newer *x = arg;
    struct bucket_row b;
    struct db_stmt *s;
    bool row = false;
    ty_err err = bucket_find(c, &x->arena, x->bucket, &b);
    if (err == TY_OK)
        err =
            db_prepare(c,
                       "SELECT (SELECT count(*) FROM old WHERE bucket = ?1 AND name = ?2 AND "
                       "generation > ?3 AND soft = 0) + (SELECT count(*) FROM object WHERE bucket "
                       "= ?1 AND name = ?2 AND generation > ?3)",
                       &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, b.id);
    db_bind_str(s, 2, x->object->name);
    db_bind_i64(s, 3, x->object->generation);
    err = db_step(s, &row);
    x->count = err == TY_OK && row ? db_column_i64(s, 0) : 0;
    return err;
}

static bool any_matches(const json_t *texts, ty_str name, bool (*matches)(ty_str s, ty_str part))
{
    const json_t *item;
    size_t i;
    json_array_foreach (texts, i, item)
        if (matches(name, ty_str_of(json_string_value(item))))
            return true;
    return false;
}

static bool rule_matches(struct objects *o, ty_str bucket, const struct rule *r,
                         const struct object *x, int64_t now_ns)
{
    bool live = x->delete_ns == 0;
    if (!r->deletes || (r->live >= 0 && r->live != live) ||
        (r->age_days >= 0 && now_ns - x->create_ns < r->age_days * DAY_S * 1000000000) ||
        (r->created_before_ns && x->create_ns >= r->created_before_ns) ||
        (r->prefixes && !any_matches(r->prefixes, x->name, ty_str_starts)) ||
        (r->suffixes && !any_matches(r->suffixes, x->name, ty_str_ends)) ||
        (r->classes && !any_matches(r->classes, x->settings.storage_class, ty_str_eq)))
        return false;
    if (r->newer < 0)
        return true;
    struct newer n = {.bucket = bucket, .object = x};
    bool counted = db_read(o->db, newer_fn, &n) == TY_OK;
    ty_arena_clear(&n.arena);
    return counted && n.count >= r->newer;
}

/* A live one is deleted as a client would; an old one by its generation. What changed meanwhile
 * stays. */
static ty_err rule_delete(struct objects *o, ty_str bucket, const struct object *x)
{
    struct object_conditions same = {.given = OBJECTS_IF_GENERATION,
                                     .generation_match = x->generation};
    struct object_ref ref = {
        .bucket = bucket, .name = x->name, .generation = x->delete_ns ? x->generation : 0};
    ty_err err = objects_delete(o, ref, &same);
    if (err == TY_OK)
        log_info("objects.lifecycle",
                 "bucket=" TY_STR_FMT " name=\"" TY_STR_FMT "\" generation=%" PRId64,
                 TY_STR_ARG(bucket), TY_STR_ARG(x->name), x->generation);
    return err == TY_NOT_FOUND || err == TY_FAILED_PRECONDITION ? TY_OK : err;
}

static ty_err page_sweep(struct objects *o, ty_str bucket, const struct rule *rules, size_t count,
                         const struct object_page *page)
{
    ty_err err = TY_OK;
    int64_t now_ns = ty_now_ns();
    for (size_t i = 0; i < page->item_count && err == TY_OK; i++)
        for (size_t k = 0; k < count; k++)
            if (rule_matches(o, bucket, &rules[k], &page->items[i], now_ns)) {
                err = rule_delete(o, bucket, &page->items[i]);
                break;
            }
    return err;
}

/* All pages of a query, each given to `sweep`. */
ty_err lifecycle_run(struct objects *o, ty_str bucket, ty_str lifecycle)
{
    struct rule rules[OBJECTS_RULES];
    struct ty_arena a = {0};
    json_t *json = NULL;
    size_t count = 0;
    char token[OBJECTS_TOKEN_BYTES] = "";
    ty_err err = rules_read(lifecycle, &json, rules, &count);
    while (err == TY_OK && count > 0) {
        struct object_page page;
        struct object_query query = {.bucket = bucket, .token = ty_str_of(token), .versions = true};
        err = objects_list(o, &a, &query, &page);
        if (err == TY_OK)
            err = page_sweep(o, bucket, rules, count, &page);
        bool more = err == TY_OK && page.next_token.len > 0;
        if (more)
            snprintf(token, sizeof token, TY_STR_FMT, TY_STR_ARG(page.next_token));
        ty_arena_clear(&a);
        if (!more)
            break;
    }
    json_decref(json);
    return err;
}

/* ---- soft-deleted objects past their time ---- */

struct forget {
    struct ty_arena arena;
    ty_str bucket;
    struct object_ref refs[SETTLE_ROWS];
    size_t count;
};

static ty_err forget_fn(struct db_conn *c, void *arg)
{
    struct forget *x = arg;
    struct bucket_row b;
    struct db_stmt *s;
    bool row = false;
    x->count = 0;
    ty_err err = bucket_find(c, &x->arena, x->bucket, &b);
    if (err == TY_OK)
        err = db_prepare(c,
                         "SELECT name, generation FROM old WHERE bucket = ?1 AND soft = 1 AND "
                         "delete_ns <= ?2 LIMIT ?3",
                         &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, b.id);
    db_bind_i64(s, 2, ty_now_ns() - b.soft_delete_s * 1000000000);
    db_bind_i64(s, 3, SETTLE_ROWS);
    while ((err = db_step(s, &row)) == TY_OK && row)
        x->refs[x->count++] =
            (struct object_ref){.bucket = x->bucket,
                                .name = ty_str_dup(&x->arena, db_column_str(s, 0)),
                                .generation = db_column_i64(s, 1),
                                .soft_deleted = true};
    return err;
}

static ty_err soft_forget(struct objects *o, ty_str bucket)
{
    struct forget *x = calloc(1, sizeof *x);
    ty_assert(x);
    x->bucket = bucket;
    ty_err err;
    do {
        err = db_read(o->db, forget_fn, x);
        for (size_t i = 0; i < x->count && err == TY_OK; i++) {
            err = objects_delete(o, x->refs[i], NULL);
            if (err == TY_NOT_FOUND) /* restored just now */
                err = TY_OK;
        }
        ty_arena_clear(&x->arena);
    } while (err == TY_OK && x->count == SETTLE_ROWS);
    free(x);
    return err;
}

ty_err objects_sweep(struct objects *o)
{
    struct ty_arena a = {0};
    char after[OBJECTS_BUCKET_NAME_BYTES + 1] = "";
    bool more = true;
    ty_err err = sessions_expire(o);
    while (err == TY_OK && more) {
        struct bucket *buckets;
        size_t count;
        err = objects_bucket_list(o, &a, TY_STR(""), TY_STR(""), ty_str_of(after), 100, &buckets,
                                  &count, &more);
        for (size_t i = 0; err == TY_OK && i < count; i++) {
            err = soft_forget(o, buckets[i].name);
            if (err == TY_OK && buckets[i].lifecycle.len > 0)
                err = lifecycle_run(o, buckets[i].name, buckets[i].lifecycle);
            if (err == TY_NOT_FOUND) /* deleted meanwhile */
                err = TY_OK;
            snprintf(after, sizeof after, TY_STR_FMT, TY_STR_ARG(buckets[i].name));
        }
        ty_arena_clear(&a);
    }
    return err;
}

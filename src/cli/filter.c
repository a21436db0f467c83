/* filter.c -- --filter, applied here to what the server lists, as gcloud does.
 *
 *   expr := or (or)*;  or := and ("OR" and)*;  and := not ("AND" not)*;  not := ["NOT" | "-"] term
 *   term := "(" expr ")" | key op value | key ("=" | ":") "(" value (["," | "OR"] value)* ")" |
 * word op   := "=" | "!=" | "<" | "<=" | ">" | ">=" | ":" | "~" | "!~" key  := path ("." transform
 * "(" arguments ")")*, as in --format NOT binds tightest, then AND, then OR, then standing side by
 * side; AND and OR in one pair of parentheses are refused, because gcloud refuses them. "=" ignores
 * case; ":" is contains, also in the names of a mapping, with x* for "begins with" and * for "is
 * there"; "~" is a regular expression. A key of a list is true if any element is. Times compare
 * with times, dates (2026-01-31) and spans from now (-P1D). A word alone is looked for in every
 * value. */
#include "cli/cli_int.h"

#include <regex.h>

#include "wire/wire.h"

enum { MAX_NODES = 1000, MAX_DEPTH = 64 };

enum op { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_HAS, OP_RE, OP_NOT_RE, OP_COUNT };
static const char *const op_texts[OP_COUNT] = {"=", "!=", "<", "<=", ">", ">=", ":", "~", "!~"};

enum node_kind { NODE_TERM, NODE_NOT, NODE_AND, NODE_OR };
struct node {
    enum node_kind kind;
    struct node *left, *right;
    struct cli_column key; /* without a path: a word alone */
    enum op op;
    struct cli_item *wanted; /* the values, any of which will do */
    regex_t regex;           /* of OP_RE and OP_NOT_RE */
    bool has_regex, seen;    /* some item has the key */
    struct node *next;       /* of all terms */
};
struct cli_filter {
    struct ty_arena *arena;
    ty_str text, rest;
    struct node *root, *terms;
    size_t nodes, depth;
    bool has_and, has_or; /* in the parentheses that are open */
};

/* ---- reading ---- */

static ty_err expr_parse(struct cli_filter *f, struct node **ret_node);

static ty_err filter_fail(const struct cli_filter *f, const char *what)
{
    return ty_fail(TY_INVALID_ARGUMENT, "argument --filter: %s at '" TY_STR_FMT "'", what,
                   TY_STR_ARG(f->rest.len > 0 ? f->rest : TY_STR("the end")));
}

static void spaces_skip(struct cli_filter *f)
{
    while (f->rest.len > 0 && strchr(" \t\r\n", f->rest.ptr[0]) != NULL)
        f->rest = ty_str_drop(f->rest, 1);
}

/* NULL, with a message recorded: there are too many. */
static struct node *node_new(struct cli_filter *f, enum node_kind kind)
{
    if (++f->nodes > MAX_NODES) {
        (void)!filter_fail(f, "more than 1000 terms");
        return NULL;
    }
    struct node *n = ty_new(f->arena, struct node);
    n->kind = kind;
    return n;
}

/* Take "OR" and the like, if it is a word of its own. */
static bool word_take(struct cli_filter *f, const char *word)
{
    size_t n = strlen(word);
    spaces_skip(f);
    if (!ty_str_starts(f->rest, ty_str_of(word)) ||
        (f->rest.len > n && strchr(" \t\r\n(", f->rest.ptr[n]) == NULL))
        return false;
    f->rest = ty_str_drop(f->rest, n);
    return true;
}

/* A word up to a space, a parenthesis or one of `ends`; or anything in quotes. */
static ty_err value_take(struct cli_filter *f, const char *ends, ty_str *ret_value)
{
    spaces_skip(f);
    char quote = f->rest.len > 0 ? f->rest.ptr[0] : '\0';
    size_t n = 0;
    if (quote == '"' || quote == '\'') {
        for (n = 1; n < f->rest.len && f->rest.ptr[n] != quote; n++)
            ;
        if (n == f->rest.len)
            return filter_fail(f, "a quote that is never closed");
        *ret_value = (ty_str){f->rest.ptr + 1, n - 1};
        f->rest = ty_str_drop(f->rest, n + 1);
        return TY_OK;
    }
    while (n < f->rest.len && strchr(" \t\r\n()", f->rest.ptr[n]) == NULL &&
           strchr(ends, f->rest.ptr[n]) == NULL)
        n++;
    if (n == 0 && quote == '(')
        return filter_fail(f, "a value was expected (lists are for = and :, others need quotes)");
    if (n == 0)
        return filter_fail(f, "a value was expected");
    *ret_value = (ty_str){f->rest.ptr, n};
    f->rest = ty_str_drop(f->rest, n);
    return TY_OK;
}

/* Between two values of a list: a comma, behind which there has to be one, or words that gcloud
 * leaves out. False: the list is over. */
static bool list_goes_on(struct cli_filter *f)
{
    spaces_skip(f);
    if (f->rest.len > 0 && f->rest.ptr[0] == ',') {
        f->rest = ty_str_drop(f->rest, 1);
        return true;
    }
    while (word_take(f, "OR") || word_take(f, "AND") || word_take(f, "NOT"))
        spaces_skip(f);
    return f->rest.len > 0 && f->rest.ptr[0] != ')';
}

static ty_err wanted_parse(struct cli_filter *f, struct node *term)
{
    struct cli_item **tail = &term->wanted;
    spaces_skip(f);
    bool list =
        f->rest.len > 0 && f->rest.ptr[0] == '(' && (term->op == OP_EQ || term->op == OP_HAS);
    f->rest = ty_str_drop(f->rest, list ? 1 : 0);
    do {
        struct cli_item *item = ty_new(f->arena, struct cli_item);
        ty_err err = value_take(f, list ? "," : "", &item->value);
        if (err != TY_OK)
            return err;
        if (++f->nodes > MAX_NODES)
            return filter_fail(f, "more than 1000 values");
        *tail = item;
        tail = &item->next;
    } while (list && list_goes_on(f));
    if (list && f->rest.len == 0)
        return filter_fail(f, "a parenthesis that is never closed");
    f->rest = ty_str_drop(f->rest, list ? 1 : 0);
    return TY_OK;
}

/* Python's \d is not in POSIX. */
static ty_err regex_compile(struct node *term)
{
    struct ty_buf b;
    ty_str from = term->wanted->value;
    ty_buf_init(&b, 1 << 20);
    for (size_t i = 0; i < from.len; i++) {
        bool digit = from.ptr[i] == '\\' && i + 1 < from.len && from.ptr[i + 1] == 'd';
        ty_buf_addz(&b, digit ? "[0-9]" : "");
        if (digit)
            i++;
        else
            ty_buf_addc(&b, from.ptr[i]);
    }
    int failed = regcomp(&term->regex, b.ptr, REG_EXTENDED | REG_NOSUB);
    ty_buf_clear(&b);
    if (failed != 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --filter: '" TY_STR_FMT "' is no regular expression",
                       TY_STR_ARG(from));
    term->has_regex = true;
    return TY_OK;
}

static bool op_take(struct cli_filter *f, enum op *ret_op)
{
    size_t best = 0;
    spaces_skip(f);
    for (size_t i = 0; i < OP_COUNT; i++) {
        ty_str text = ty_str_of(op_texts[i]);
        if (text.len > best && ty_str_starts(f->rest, text)) {
            best = text.len;
            *ret_op = (enum op)i;
        }
    }
    f->rest = ty_str_drop(f->rest, best);
    return best > 0;
}

/* The text of a key: names, and behind a '.' also "transform(...)". */
static ty_str key_take(struct cli_filter *f)
{
    ty_str key = {f->rest.ptr, 0}, inside;
    for (bool call = true; call;) {
        while (key.len < f->rest.len && strchr(" \t\r\n()=!<>:~\"'", f->rest.ptr[key.len]) == NULL)
            key.len++;
        ty_str behind = ty_str_drop(f->rest, key.len);
        call = behind.len > 0 && behind.ptr[0] == '(' && memchr(key.ptr, '.', key.len) != NULL;
        behind = ty_str_drop(behind, call ? 1 : 0);
        call = call && cli_piece_split(&behind, ')', &inside);
        key.len = call ? f->rest.len - behind.len : key.len;
    }
    f->rest = ty_str_drop(f->rest, key.len);
    return key;
}

static ty_err term_parse(struct cli_filter *f, struct node **ret_node)
{
    struct node *term = node_new(f, NODE_TERM);
    if (term == NULL)
        return TY_INVALID_ARGUMENT;
    term->next = f->terms;
    f->terms = term;
    *ret_node = term;
    ty_str start = f->rest, key = key_take(f);
    if (key.len > 0 && op_take(f, &term->op)) {
        bool regex = term->op == OP_RE || term->op == OP_NOT_RE;
        ty_err err = cli_key_parse(key, &term->key);
        if (err != TY_OK)
            return ty_wrap(err, "argument --filter");
        err = wanted_parse(f, term);
        return err == TY_OK && regex ? regex_compile(term) : err;
    }
    if (key.len > 0 && key.ptr[key.len - 1] == ')')
        return filter_fail(f, "an operator was expected");
    f->rest = start;
    term->op = OP_HAS;
    term->wanted = ty_new(f->arena, struct cli_item);
    return value_take(f, "", &term->wanted->value);
}

/* "(" expr ")", of which the first was seen. */
static ty_err group_parse(struct cli_filter *f, struct node **ret_node)
{
    bool has_and = f->has_and, has_or = f->has_or;
    f->rest = ty_str_drop(f->rest, 1);
    if (++f->depth > MAX_DEPTH)
        return filter_fail(f, "too deep");
    f->has_and = f->has_or = false;
    ty_err err = expr_parse(f, ret_node);
    f->has_and = has_and;
    f->has_or = has_or;
    f->depth--;
    if (err == TY_OK && (f->rest.len == 0 || f->rest.ptr[0] != ')'))
        return filter_fail(f, "a parenthesis that is never closed");
    f->rest = ty_str_drop(f->rest, err == TY_OK ? 1 : 0);
    return err;
}

static ty_err not_parse(struct cli_filter *f, struct node **ret_node)
{
    spaces_skip(f);
    bool minus = f->rest.len > 1 && f->rest.ptr[0] == '-';
    if (minus || word_take(f, "NOT")) {
        f->rest = ty_str_drop(f->rest, minus ? 1 : 0);
        if (++f->depth > MAX_DEPTH)
            return filter_fail(f, "too deep");
        struct node *not = node_new(f, NODE_NOT);
        ty_err err = not != NULL ? not_parse(f, &not ->left) : TY_INVALID_ARGUMENT;
        *ret_node = not ;
        f->depth--;
        return err;
    }
    bool group = f->rest.len > 0 && f->rest.ptr[0] == '(';
    return group ? group_parse(f, ret_node) : term_parse(f, ret_node);
}

/* next (WORD next)*, or next next ... if word is NULL. */
static ty_err chain_parse(struct cli_filter *f, enum node_kind kind, const char *word,
                          ty_err (*next)(struct cli_filter *, struct node **),
                          struct node **ret_node)
{
    ty_err err = next(f, ret_node);
    while (err == TY_OK) {
        spaces_skip(f);
        if (word != NULL ? !word_take(f, word) : f->rest.len == 0 || f->rest.ptr[0] == ')')
            break;
        f->has_or |= kind == NODE_OR;
        f->has_and |= kind == NODE_AND && word != NULL;
        if (f->has_and && f->has_or)
            return filter_fail(f, "AND and OR together need parentheses");
        struct node *both = node_new(f, kind);
        if (both == NULL)
            return TY_INVALID_ARGUMENT;
        both->left = *ret_node;
        *ret_node = both;
        err = next(f, &both->right);
    }
    return err;
}

static ty_err and_parse(struct cli_filter *f, struct node **ret_node)
{
    return chain_parse(f, NODE_AND, "AND", not_parse, ret_node);
}

static ty_err or_parse(struct cli_filter *f, struct node **ret_node)
{
    return chain_parse(f, NODE_OR, "OR", and_parse, ret_node);
}

static ty_err expr_parse(struct cli_filter *f, struct node **ret_node)
{
    return chain_parse(f, NODE_AND, NULL, or_parse, ret_node);
}

ty_err cli_filter_parse(struct ty_arena *a, ty_str text, struct cli_filter **ret_filter)
{
    struct cli_filter *f = ty_new(a, struct cli_filter);
    f->arena = a;
    f->text = f->rest = text;
    ty_err err = expr_parse(f, &f->root);
    if (err == TY_OK && f->rest.len > 0)
        err = filter_fail(f, "a parenthesis too many");
    if (err == TY_OK)
        *ret_filter = f;
    else
        cli_filter_clear(f);
    return err;
}

/* ---- matching ---- */

static bool number_of(ty_str s, double *ret_number)
{
    char text[64], *end;
    if (s.len == 0 || s.len >= sizeof(text))
        return false;
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    *ret_number = strtod(text, &end);
    return *end == '\0';
}

/* P1DT2H: a span of ISO 8601, in days and less. */
static bool span_parse(ty_str s, int64_t *ret_ns)
{
    bool minus = s.len > 0 && s.ptr[0] == '-', time = false;
    int64_t total = 0, number = 0;
    s = ty_str_drop(s, minus);
    if (s.len < 2 || s.ptr[0] != 'P')
        return false;
    for (size_t i = 1; i < s.len; i++) {
        static const char units[] = "WDHMS";
        static const int64_t seconds[] = {7 * 86400, 86400, 3600, 60, 1};
        char ch = s.ptr[i];
        const char *unit = strchr(units, ch);
        if (ch >= '0' && ch <= '9' && number < 1000000) {
            number = number * 10 + (ch - '0');
        } else if (ch == 'T' && !time) {
            time = true;
        } else if (unit != NULL && time == (unit - units > 1)) {
            total += number * seconds[unit - units];
            number = 0;
        } else {
            return false;
        }
    }
    *ret_ns = (minus ? -total : total) * 1000000000;
    return number == 0;
}

/* A time as people write it after createTime>. */
static bool time_of(struct ty_arena *a, ty_str s, int64_t *ret_ns)
{
    int64_t span;
    if (span_parse(s, &span)) {
        *ret_ns = ty_now_ns() + span;
        return true;
    }
    static const char *const endings[] = {"", "Z", ":00Z", "T00:00:00Z"};
    for (size_t i = 0; i < TY_COUNT(endings); i++)
        if (wire_time_parse(ty_str_of(ty_format(a, TY_STR_FMT "%s", TY_STR_ARG(s), endings[i])),
                            ret_ns) == TY_OK)
            return true;
    return false;
}

static int text_compare(ty_str a, ty_str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int by = n > 0 ? strncasecmp(a.ptr, b.ptr, n) : 0;
    return by != 0 ? by : (a.len > b.len) - (a.len < b.len);
}

static int compare(struct ty_arena *a, ty_str have, ty_str want)
{
    double x, y;
    int64_t s, t;
    if (number_of(have, &x) && number_of(want, &y))
        return (x > y) - (x < y);
    if (wire_time_parse(have, &s) == TY_OK && time_of(a, want, &t))
        return (s > t) - (s < t);
    return text_compare(have, want);
}

static bool text_has(ty_str have, ty_str want)
{
    for (size_t i = 0; i + want.len <= have.len; i++)
        if (want.len == 0 || strncasecmp(have.ptr + i, want.ptr, want.len) == 0)
            return true;
    return false;
}

/* ':' with x, x*, *x, x*y or *. */
static bool pattern_matches(ty_str have, ty_str want)
{
    ty_str tail = want, head;
    if (!ty_str_split(&tail, '*', &head))
        return text_has(have, want);
    return have.len >= head.len + tail.len && have.len > 0 &&
           text_compare((ty_str){have.ptr, head.len}, head) == 0 &&
           text_compare(ty_str_drop(have, have.len - tail.len), tail) == 0;
}

static bool op_holds(struct ty_arena *a, const struct node *n, ty_str have, ty_str want)
{
    switch (n->op) {
    case OP_LT:
        return compare(a, have, want) < 0;
    case OP_LE:
        return compare(a, have, want) <= 0;
    case OP_GT:
        return compare(a, have, want) > 0;
    case OP_GE:
        return compare(a, have, want) >= 0;
    case OP_HAS:
        return pattern_matches(have, want);
    case OP_RE:
        return regexec(&n->regex, ty_cstr(a, have), 0, NULL, 0) == 0;
    case OP_NOT_RE:
        return regexec(&n->regex, ty_cstr(a, have), 0, NULL, 0) != 0;
    default:
        return compare(a, have, want) == 0;
    }
}

static bool scalar_matches(struct ty_arena *a, const struct node *n, const json_t *v)
{
    struct ty_buf b;
    bool holds = false;
    ty_buf_init(&b, 1 << 26);
    cli_value_inline(&b, v);
    ty_str have = ty_buf_str(&b);
    for (const struct cli_item *i = n->wanted; i != NULL && !holds; i = i->next)
        holds = op_holds(a, n, have, i->value);
    ty_buf_clear(&b);
    return n->op == OP_NE ? !holds : holds;
}

/* No deeper than a reply is (WIRE_MAX_DEPTH). `all`: also what is inside objects. */
static bool value_matches(struct ty_arena *a, const struct node *n, const json_t *v, bool all)
{
    const char *key;
    json_t *member;
    if (json_is_array(v) && json_array_size(v) > 0) {
        for (size_t i = 0; i < json_array_size(v); i++)
            if (value_matches(a, n, json_array_get(v, i), all))
                return true;
        return false;
    }
    if (!json_is_object(v) || (n->op != OP_HAS && n->op != OP_EQ))
        return scalar_matches(a, n, v);
    json_object_foreach ((json_t *)v, key, member) {
        json_t *name = all ? NULL : json_string(key);
        bool holds = (name != NULL && scalar_matches(a, n, name)) ||
                     (all || !json_is_object(member) ? value_matches(a, n, member, all) : false);
        json_decref(name);
        if (holds)
            return true;
    }
    return false;
}

static bool node_matches(struct ty_arena *a, struct node *n, const json_t *item)
{
    if (n->kind == NODE_NOT)
        return !node_matches(a, n->left, item);
    if (n->kind == NODE_AND || n->kind == NODE_OR) {
        bool left = node_matches(a, n->left, item), right = node_matches(a, n->right, item);
        return n->kind == NODE_AND ? left && right : left || right;
    }
    if (n->key.path.len == 0)
        return value_matches(a, n, item, true);
    json_t *value = cli_json_at(item, n->key.path);
    n->seen |= value != NULL;
    value = cli_calls_apply(a, &n->key, value);
    bool holds = value_matches(a, n, value, false);
    json_decref(value);
    return holds;
}

bool cli_filter_matches(struct cli_filter *f, const json_t *item)
{
    struct ty_arena a = {0};
    bool holds = node_matches(&a, f->root, item);
    ty_arena_clear(&a);
    return holds;
}

void cli_filter_warn(const struct cli_filter *f)
{
    for (const struct node *n = f != NULL ? f->terms : NULL; n != NULL; n = n->next)
        if (n->key.path.len > 0 && !n->seen)
            fprintf(
                stderr,
                "WARNING: The following filter keys were not present in any resource : " TY_STR_FMT
                "\n",
                TY_STR_ARG(n->key.path));
}

void cli_filter_clear(struct cli_filter *f)
{
    for (struct node *n = f != NULL ? f->terms : NULL; n != NULL; n = n->next) {
        if (n->has_regex)
            regfree(&n->regex);
        n->has_regex = false;
    }
}

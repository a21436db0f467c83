/* filter.c -- filters of list calls and of Cloud Logging (AIP-160).
 *
 * Parsed once into a tree in the caller's arena, then matched against every
 * row without allocating. Two things surprise people who know SQL and are
 * Google's rules all the same: OR binds tighter than AND, and a comparison with
 * a member that a row does not have is false, != too.
 *
 * The tree: an AND or OR holds its operands in a list, so its height is that of
 * the parentheses, not of the length. NOT is a flag on any node. */
#include "wire/wire_int.h"

enum {
    MAX_TEXT_BYTES = 64 * 1024,
    MAX_LEVELS = 64,
    MAX_TERMS = 1000,
    MAX_WORD_BYTES = 1024, /* of a name or value: bounds the cost of one search */
};

enum op { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_HAS };
enum kind { KIND_AND, KIND_OR, KIND_TERM };

struct node {
    enum kind kind;
    bool negate;
    struct node *first, *next; /* operands; the next operand of the parent */
    /* a term: */
    enum op op;
    ty_str name;     /* empty: search in the text */
    ty_str value;    /* what it is compared with */
    ty_str has_name; /* name.value, for `labels:key` */
    size_t at;       /* the byte where the name starts, for messages */
};
struct wire_filter {
    struct node *root; /* NULL: everything matches */
};

/* A value with '*' is a pattern. */
static bool has_star(ty_str s)
{
    return s.len > 0 && memchr(s.ptr, '*', s.len) != NULL;
}

/* ---- reading words ---- */

struct parser {
    struct ty_arena *arena;
    ty_str text; /* a copy in the arena: words are views of it */
    size_t at;
    int levels, terms;
};

/* What the values in a list belong to: field = ("a" OR "b"). */
struct subject {
    ty_str name;
    enum op op;
    size_t at;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static char peek(const struct parser *p)
{
    return p->at < p->text.len ? p->text.ptr[p->at] : 0;
}

static char peek_next(const struct parser *p)
{
    return p->at + 1 < p->text.len ? p->text.ptr[p->at + 1] : 0;
}

/* Spaces, and comments from "--" to the end of the line. */
static void skip_space(struct parser *p)
{
    for (;;) {
        while (p->at < p->text.len && is_space(peek(p)))
            p->at++;
        if (peek(p) != '-' || peek_next(p) != '-')
            return;
        while (p->at < p->text.len && peek(p) != '\n')
            p->at++;
    }
}

static bool is_operator(const struct parser *p)
{
    char c = peek(p);
    return c == '=' || c == '<' || c == '>' || c == ':' || (c == '!' && peek_next(p) == '=');
}

/* Is the next word this keyword? Keywords are in capitals, as everywhere at Google. */
static bool at_keyword(const struct parser *p, const char *keyword)
{
    size_t n = strlen(keyword);
    ty_str rest = ty_str_drop(p->text, p->at);
    if (!ty_str_starts(rest, (ty_str){keyword, n}))
        return false;
    return rest.len == n || is_space(rest.ptr[n]) || rest.ptr[n] == '(' || rest.ptr[n] == ')' ||
           rest.ptr[n] == '"' || rest.ptr[n] == '\'';
}

static bool at_any_keyword(const struct parser *p)
{
    return at_keyword(p, "AND") || at_keyword(p, "OR") || at_keyword(p, "NOT");
}

/* Room for what the rest of the text can hold, at most one word. */
static char *alloc_word(struct parser *p)
{
    size_t left = p->text.len - p->at;
    return ty_alloc(p->arena, left < MAX_WORD_BYTES ? left + 1 : MAX_WORD_BYTES + 1);
}

static ty_err fail_at(size_t at, const char *what)
{
    return ty_fail(TY_INVALID_ARGUMENT, "filter byte %zu: %s", at, what);
}

static bool unescape(char c, char *ret_char)
{
    static const char from[] = "\"'\\nrt", to[] = "\"'\\\n\r\t";
    const char *found = c ? strchr(from, c) : NULL;
    if (found)
        *ret_char = to[found - from];
    return found != NULL;
}

/* A quoted string, its escapes resolved; the cursor is at the opening quote. */
static ty_err take_quoted(struct parser *p, ty_str *ret_word)
{
    size_t start = p->at, n = 0;
    char quote = peek(p);
    char *out = alloc_word(p);
    for (p->at++; p->at < p->text.len && peek(p) != quote; p->at++) {
        char c = peek(p);
        if (c == '\\') {
            p->at++;
            if (!unescape(peek(p), &c))
                return fail_at(p->at, "an unknown escape; there are \\\" \\' \\\\ \\n \\r \\t");
        }
        if (n == MAX_WORD_BYTES)
            return fail_at(start, "a string of more than 1024 bytes");
        out[n++] = c;
    }
    if (p->at >= p->text.len)
        return fail_at(start, "a string without its closing quote");
    p->at++;
    *ret_word = (ty_str){out, n};
    return TY_OK;
}

/* Unquoted text of a value: up to a space, parenthesis or quote, so times and
 * paths need no quotes. */
static ty_err take_bare_value(struct parser *p, ty_str *ret_word)
{
    size_t start = p->at;
    while (p->at < p->text.len && !is_space(peek(p)) && !memchr("()\"'", peek(p), 4))
        p->at++;
    if (p->at - start > MAX_WORD_BYTES)
        return fail_at(start, "a word of more than 1024 bytes");
    *ret_word = (ty_str){p->text.ptr + start, p->at - start};
    return TY_OK;
}

static ty_err take_value(struct parser *p, ty_str *ret_word)
{
    if (p->at == p->text.len)
        return fail_at(p->at, "a value was expected, not the end");
    if (peek(p) == '"' || peek(p) == '\'')
        return take_quoted(p, ret_word);
    if (at_any_keyword(p) || is_operator(p) || peek(p) == ')')
        return fail_at(p->at, "a value was expected (quote it if it is a keyword or an operator)");
    if (peek(p) == '~')
        return fail_at(p->at, "regular expressions (=~) are not supported");
    return take_bare_value(p, ret_word);
}

/* One part of a name: quoted, or up to a dot, an operator or a space. */
static ty_err take_name_part(struct parser *p, ty_str *ret_part)
{
    if (peek(p) == '"' || peek(p) == '\'')
        return take_quoted(p, ret_part);
    size_t start = p->at;
    while (p->at < p->text.len && !is_space(peek(p)) && !memchr(".()\"'", peek(p), 5) &&
           !is_operator(p))
        p->at++;
    *ret_part = (ty_str){p->text.ptr + start, p->at - start};
    return TY_OK;
}

/* A dotted name without its quotes: labels."a.b" becomes labels.a.b. */
static ty_err take_name(struct parser *p, ty_str *ret_name)
{
    size_t start = p->at, n = 0;
    char *out = alloc_word(p);
    for (;;) {
        ty_str part;
        ty_err err = take_name_part(p, &part);
        if (err)
            return err;
        if (part.len >= MAX_WORD_BYTES - n)
            return fail_at(start, "a name of more than 1024 bytes");
        memcpy(out + n, part.ptr, part.len);
        n += part.len;
        if (peek(p) != '.')
            break;
        out[n++] = '.';
        p->at++;
    }
    *ret_name = (ty_str){out, n};
    return TY_OK;
}

/* An operator, if there is one. */
static bool take_operator(struct parser *p, enum op *ret_op)
{
    static const struct {
        const char *text;
        enum op op;
    } ops[] = {{"!=", OP_NE}, {"<=", OP_LE}, {">=", OP_GE}, {"=", OP_EQ},
               {"<", OP_LT},  {">", OP_GT},  {":", OP_HAS}};
    ty_str rest = ty_str_drop(p->text, p->at);
    for (size_t i = 0; i < TY_COUNT(ops); i++) {
        if (ty_str_starts(rest, ty_str_of(ops[i].text))) {
            p->at += strlen(ops[i].text);
            *ret_op = ops[i].op;
            return true;
        }
    }
    return false;
}

/* ---- the grammar ---- */

static ty_err parse_and(struct parser *p, const struct subject *of, struct node **ret_node);

static ty_err new_term(struct parser *p, struct subject s, ty_str value, struct node **ret_node)
{
    if (++p->terms > MAX_TERMS)
        return fail_at(s.at, "more than 1000 terms");
    struct node *n = ty_new(p->arena, struct node);
    *n = (struct node){KIND_TERM, .op = s.op, .name = s.name, .value = value, .at = s.at};
    if (s.op == OP_HAS && s.name.len > 0 && !has_star(value))
        n->has_name = ty_str_of(
            ty_format(p->arena, TY_STR_FMT "." TY_STR_FMT, TY_STR_ARG(s.name), TY_STR_ARG(value)));
    *ret_node = n;
    return TY_OK;
}

/* "(" and(of) ")"; the cursor is at the opening one. */
static ty_err parse_group(struct parser *p, const struct subject *of, struct node **ret_node)
{
    size_t start = p->at;
    if (++p->levels > MAX_LEVELS)
        return fail_at(start, "more than 64 levels of parentheses");
    p->at++;
    ty_err err = parse_and(p, of, ret_node);
    if (err)
        return err;
    skip_space(p);
    if (peek(p) != ')')
        return fail_at(start, "a parenthesis that is never closed");
    p->at++;
    p->levels--;
    return TY_OK;
}

/* What follows an operator: one value, or values in parentheses. */
static ty_err parse_argument(struct parser *p, struct subject s, struct node **ret_node)
{
    ty_str value;
    skip_space(p);
    if (peek(p) != '(') {
        ty_err err = take_value(p, &value);
        return err ? err : new_term(p, s, value, ret_node);
    }
    bool negate = s.op == OP_NE; /* not among them, rather than different from one of them */
    if (negate)
        s.op = OP_EQ;
    ty_err err = parse_group(p, &s, ret_node);
    if (!err && negate)
        (*ret_node)->negate = !(*ret_node)->negate;
    return err;
}

static ty_err parse_term(struct parser *p, const struct subject *of, struct node **ret_node)
{
    ty_err err;
    ty_str word;
    if (peek(p) == '(')
        return parse_group(p, of, ret_node);
    if (of) {
        err = take_value(p, &word);
        return err ? err : new_term(p, *of, word, ret_node);
    }
    struct subject s = {.at = p->at};
    if (p->at == p->text.len || at_any_keyword(p) || is_operator(p) || peek(p) == ')')
        return fail_at(p->at, "a term was expected");
    err = take_name(p, &s.name);
    if (err)
        return err;
    if (peek(p) == '(')
        return fail_at(s.at, "functions are not supported");
    size_t end = p->at;
    skip_space(p);
    if (take_operator(p, &s.op))
        return s.name.len ? parse_argument(p, s, ret_node) : fail_at(s.at, "an empty name");
    p->at = end;
    word = s.name;
    s = (struct subject){.name = TY_STR(""), .op = OP_HAS, .at = s.at};
    return new_term(p, s, word, ret_node);
}

static ty_err parse_not(struct parser *p, const struct subject *of, struct node **ret_node)
{
    bool negate = false;
    for (;;) {
        skip_space(p);
        if (at_keyword(p, "NOT"))
            p->at += 3;
        else if (!of && peek(p) == '-')
            p->at++;
        else
            break;
        negate = !negate;
    }
    ty_err err = parse_term(p, of, ret_node);
    if (!err && negate)
        (*ret_node)->negate = !(*ret_node)->negate;
    return err;
}

/* Make `first` and what follows it operands of one node; a single one stays itself. */
static struct node *join(struct parser *p, enum kind kind, struct node *first)
{
    if (!first->next)
        return first;
    struct node *n = ty_new(p->arena, struct node);
    n->kind = kind;
    n->first = first;
    return n;
}

static ty_err parse_or(struct parser *p, const struct subject *of, struct node **ret_node)
{
    struct node *first = NULL, **tail = &first;
    for (;;) {
        ty_err err = parse_not(p, of, tail);
        if (err)
            return err;
        tail = &(*tail)->next;
        skip_space(p);
        if (!at_keyword(p, "OR"))
            break;
        p->at += 2;
    }
    *ret_node = join(p, KIND_OR, first);
    return TY_OK;
}

static ty_err parse_and(struct parser *p, const struct subject *of, struct node **ret_node)
{
    struct node *first = NULL, **tail = &first;
    for (;;) {
        ty_err err = parse_or(p, of, tail);
        if (err)
            return err;
        tail = &(*tail)->next;
        skip_space(p);
        if (at_keyword(p, "AND"))
            p->at += 3;
        else if (p->at == p->text.len || peek(p) == ')')
            break;
    }
    *ret_node = join(p, KIND_AND, first);
    return TY_OK;
}

ty_err wire_filter_parse(struct ty_arena *a, ty_str text, struct wire_filter **ret_filter)
{
    if (text.len > MAX_TEXT_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT, "the filter is larger than %d bytes", MAX_TEXT_BYTES);
    if (!ty_utf8_valid(text) || (text.len && memchr(text.ptr, 0, text.len)))
        return ty_fail(TY_INVALID_ARGUMENT, "the filter is not UTF-8 text");
    struct parser p = {.arena = a, .text = ty_str_dup(a, text)};
    struct node *root = NULL;
    skip_space(&p);
    if (p.at < p.text.len) {
        ty_err err = parse_and(&p, NULL, &root);
        if (err)
            return err;
        if (p.at < p.text.len)
            return fail_at(p.at, "a closing parenthesis without its opening one");
    }
    struct wire_filter *f = ty_new(a, struct wire_filter);
    f->root = root;
    *ret_filter = f;
    return TY_OK;
}

/* ---- matching ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_text(const char *a, const char *b, size_t n, bool exact)
{
    if (exact)
        return memcmp(a, b, n) == 0;
    for (size_t i = 0; i < n; i++) {
        if (lower(a[i]) != lower(b[i]))
            return false;
    }
    return true;
}

/* The first place of `want` in `have`; have.len + 1 or more if there is none. */
static size_t find_text(ty_str have, ty_str want, bool exact)
{
    if (exact) {
        const char *found = want.len ? memmem(have.ptr, have.len, want.ptr, want.len) : have.ptr;
        return found ? (size_t)(found - have.ptr) : SIZE_MAX;
    }
    for (size_t i = 0; i + want.len <= have.len; i++) {
        if (want.len == 0 || (lower(have.ptr[i]) == lower(want.ptr[0]) &&
                              same_text(have.ptr + i, want.ptr, want.len, false)))
            return i;
    }
    return SIZE_MAX;
}

/* All of `have` fits a pattern whose '*' stand for any text. The pieces between
 * the stars are searched for from left to right: no backtracking is needed. */
static bool wildcard_matches(ty_str have, ty_str pattern, bool exact)
{
    ty_str piece;
    bool star = ty_str_split(&pattern, '*', &piece);
    if (have.len < piece.len || !same_text(have.ptr, piece.ptr, piece.len, exact))
        return false;
    have = ty_str_drop(have, piece.len);
    if (!star)
        return have.len == 0;
    while (ty_str_split(&pattern, '*', &piece)) {
        size_t at = find_text(have, piece, exact);
        if (at > have.len)
            return false;
        have = ty_str_drop(have, at + piece.len);
    }
    return have.len >= piece.len &&
           same_text(have.ptr + have.len - piece.len, piece.ptr, piece.len, exact);
}

static int compare(const struct wire_filter_row *row, const struct node *n, ty_str have)
{
    return row->compare ? row->compare(row, n->name, have, n->value) : ty_str_cmp(have, n->value);
}

static bool equals(const struct wire_filter_row *row, const struct node *n, ty_str have)
{
    return has_star(n->value) ? wildcard_matches(have, n->value, true) : compare(row, n, have) == 0;
}

static bool term_matches(const struct node *n, const struct wire_filter_row *row)
{
    ty_str have = {"", 0};
    bool unknown = false;
    if (!row->get(row, n->name, &have, &unknown))
        return n->has_name.len > 0 && row->get(row, n->has_name, &have, &unknown);
    switch (n->op) {
    case OP_EQ:
        return equals(row, n, have);
    case OP_NE:
        return !equals(row, n, have);
    case OP_LT:
        return compare(row, n, have) < 0;
    case OP_LE:
        return compare(row, n, have) <= 0;
    case OP_GT:
        return compare(row, n, have) > 0;
    case OP_GE:
        return compare(row, n, have) >= 0;
    case OP_HAS:
        return has_star(n->value) ? wildcard_matches(have, n->value, false)
                                  : find_text(have, n->value, false) <= have.len;
    }
    return false;
}

static bool node_matches(const struct node *n, const struct wire_filter_row *row)
{
    if (n->kind == KIND_TERM)
        return term_matches(n, row) != n->negate;
    bool decisive = n->kind == KIND_OR; /* the operand value that decides at once */
    for (const struct node *c = n->first; c; c = c->next) {
        if (node_matches(c, row) == decisive)
            return decisive != n->negate;
    }
    return !decisive != n->negate;
}

bool wire_filter_matches(const struct wire_filter *f, const struct wire_filter_row *row)
{
    return !f->root || node_matches(f->root, row);
}

/* ---- questions about a filter ---- */

static ty_err node_check(const struct node *n, const struct wire_filter_row *row)
{
    for (const struct node *c = n->first; c; c = c->next) {
        ty_err err = node_check(c, row);
        if (err)
            return err;
    }
    if (n->kind != KIND_TERM)
        return TY_OK;
    ty_str ignored = {"", 0};
    bool unknown = false;
    row->get(row, n->name, &ignored, &unknown);
    if (unknown && n->has_name.len > 0) {
        unknown = false;
        row->get(row, n->has_name, &ignored, &unknown);
    }
    if (!unknown) {
        bool order = n->op != OP_EQ && n->op != OP_NE;
        ty_err err = TY_OK;
        if (row->check && n->op != OP_HAS && n->name.len > 0)
            err = row->check(row, n->name, order, n->value);
        return err ? ty_wrap(err, "filter byte %zu", n->at) : TY_OK;
    }
    ty_str shown = wire_text_cut(n->name, 64);
    return shown.len
               ? ty_fail(TY_INVALID_ARGUMENT, "filter byte %zu: unknown field '" TY_STR_FMT "'",
                         n->at, TY_STR_ARG(shown))
               : fail_at(n->at, "a comparison was expected, such as field=\"value\"");
}

ty_err wire_filter_check(const struct wire_filter *f, const struct wire_filter_row *row)
{
    return f->root ? node_check(f->root, row) : TY_OK;
}

/* Order of two bounds: as times if both are. False if their order is not known. */
static bool order_bounds(ty_str a, ty_str b, int *ret_order)
{
    int64_t x, y;
    if (ty_str_eq(a, b)) {
        *ret_order = 0;
        return true;
    }
    if (wire_time_parse(a, &x) || wire_time_parse(b, &y))
        return false;
    *ret_order = x < y ? -1 : x > y;
    return true;
}

/* The bound that an AND (the largest of its operands' bounds) or an OR (the
 * smallest, and all must have one) puts on `name`. */
static bool node_lower_bound(const struct node *n, ty_str name, ty_str *ret_value)
{
    bool found = false;
    if (n->negate)
        return false;
    if (n->kind == KIND_TERM) {
        bool bounds = n->op == OP_GE || n->op == OP_GT || (n->op == OP_EQ && !has_star(n->value));
        if (!bounds || !wire_name_eq(n->name, name))
            return false;
        *ret_value = n->value;
        return true;
    }
    ty_str best = {"", 0}, bound;
    for (const struct node *c = n->first; c; c = c->next) {
        int order = 0;
        if (!node_lower_bound(c, name, &bound)) {
            if (n->kind == KIND_OR)
                return false;
            continue;
        }
        bool known = !found || order_bounds(bound, best, &order);
        if (!known && n->kind == KIND_OR)
            return false;
        if (!found || (known && (n->kind == KIND_OR ? order < 0 : order > 0)))
            best = bound;
        found = true;
    }
    if (found)
        *ret_value = best;
    return found;
}

bool wire_filter_lower_bound(const struct wire_filter *f, ty_str name, ty_str *ret_value)
{
    return f->root && node_lower_bound(f->root, name, ret_value);
}

static bool node_equal(const struct node *n, ty_str name, ty_str *ret_value)
{
    if (n->negate || n->kind == KIND_OR)
        return false;
    for (const struct node *c = n->first; c; c = c->next) {
        if (node_equal(c, name, ret_value))
            return true;
    }
    if (n->kind != KIND_TERM || n->op != OP_EQ || has_star(n->value) ||
        !wire_name_eq(n->name, name))
        return false;
    *ret_value = n->value;
    return true;
}

bool wire_filter_equal(const struct wire_filter *f, ty_str name, ty_str *ret_value)
{
    return f->root && node_equal(f->root, name, ret_value);
}

/* name.c -- which names may be, and globs over them.
 *
 * A glob, as Cloud Storage's matchGlob has it: '*' is any run of characters without '/', '**' with
 * it, '?' one character that is not '/', [abc] [a-z] [!a] one of (or none of) these, {x,y} either
 * of the parts, nested at most GLOB_DEPTH deep. Matching walks bytes; '?' and [] take a whole UTF-8
 * character. Stars are tried by backtracking, and the number of steps has a ceiling: a glob made
 * to be slow matches nothing instead. */
#include "objects/objects_int.h"

enum { GLOB_DEPTH = 4, GLOB_GROUPS = 16, GLOB_STEPS = 100000 };

ty_err objects_name_check(ty_str name)
{
    if (name.len == 0 || name.len > OBJECTS_NAME_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "an object's name must have 1 to %d bytes, and this one has %zu",
                       OBJECTS_NAME_BYTES, name.len);
    if (!ty_utf8_valid(name))
        return ty_fail(TY_INVALID_ARGUMENT, "an object's name must be valid UTF-8");
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] == '\0' || name.ptr[i] == '\r' || name.ptr[i] == '\n')
            return ty_fail(TY_INVALID_ARGUMENT,
                           "an object's name must not have a NUL, CR or LF, as at byte %zu", i);
    if (ty_str_is(name, ".") || ty_str_is(name, "..") ||
        ty_str_starts(name, TY_STR(".well-known/acme-challenge/")))
        return ty_fail(TY_INVALID_ARGUMENT, "an object must not be named '" TY_STR_FMT "'",
                       TY_STR_ARG(name));
    return TY_OK;
}

static bool bucket_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

/* Four numbers and three dots, as 192.168.5.4. */
static bool is_address(ty_str name)
{
    ty_str part, rest = name;
    int parts = 0, digits = 0;
    bool more = true;
    while (more) {
        more = ty_str_split(&rest, '.', &part);
        int64_t number;
        digits += part.len > 0 && part.len <= 3 && ty_parse_i64(part, &number) == TY_OK &&
                  part.ptr[0] >= '0' && part.ptr[0] <= '9' && number <= 255;
        parts++;
    }
    return parts == 4 && digits == 4;
}

ty_err objects_bucket_name_check(ty_str name)
{
    if (!name.ptr)
        name = TY_STR("");
    bool dotted = memchr(name.ptr, '.', name.len) != NULL;
    size_t most = dotted ? OBJECTS_BUCKET_NAME_BYTES : 63;
    bool fine = name.len >= 3 && name.len <= most;
    size_t part = 0;
    for (size_t i = 0; fine && i < name.len; i++) {
        part = name.ptr[i] == '.' ? 0 : part + 1;
        fine = bucket_char(name.ptr[i]) && part <= 63 &&
               !(name.ptr[i] == '.' && name.ptr[i - (i > 0)] == '.');
    }
    if (fine)
        fine = strchr("-_.", name.ptr[0]) == NULL && strchr("-_.", name.ptr[name.len - 1]) == NULL;
    if (!fine)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "invalid bucket name: '" TY_STR_FMT
                       "'; it must have 3 to 63 characters a-z, 0-9, '-', '_' and '.', and begin "
                       "and end with a letter or digit",
                       TY_STR_ARG(name));
    if (is_address(name))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "invalid bucket name: '" TY_STR_FMT
                       "'; bucket names cannot be represented as an IP address in dotted-decimal "
                       "notation",
                       TY_STR_ARG(name));
    return TY_OK;
}

/* ---- globs ---- */

struct glob {
    size_t steps;
};

/* The length of the character at p, at least 1, at most what is left. */
static size_t char_len(ty_str s)
{
    unsigned char c = (unsigned char)s.ptr[0];
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return n < s.len ? n : s.len;
}

/* Compare two characters by their bytes: in UTF-8 that is the order of code points. */
static int char_cmp(ty_str a, ty_str b)
{
    return ty_str_cmp((ty_str){a.ptr, char_len(a)}, (ty_str){b.ptr, char_len(b)});
}

/* One character of the set at *glob ("[...]"), which is moved past it; it is closed (checked). */
static bool set_matches(ty_str *glob, ty_str c)
{
    ty_str g = ty_str_drop(*glob, 1);
    bool not = g.len > 0 && (g.ptr[0] == '!' || g.ptr[0] == '^'), found = false, first = true;
    if (not )
        g = ty_str_drop(g, 1);
    while (g.len > 0 && (first || g.ptr[0] != ']')) {
        first = false;
        ty_str low = g, high = g;
        g = ty_str_drop(g, char_len(g));
        if (g.len > 1 && g.ptr[0] == '-' && g.ptr[1] != ']') {
            high = ty_str_drop(g, 1);
            g = ty_str_drop(high, char_len(high));
        }
        found = found || (char_cmp(low, c) <= 0 && char_cmp(c, high) <= 0);
    }
    *glob = ty_str_drop(g, g.len > 0);
    return found != not ;
}

/* Where the set or braces at g[0] end: the index after the closing one; 0: never. */
static size_t group_end(ty_str g)
{
    bool set = g.ptr[0] == '[';
    size_t depth = 0, i = 0;
    if (set) {
        i = 1 + (g.len > 1 && (g.ptr[1] == '!' || g.ptr[1] == '^'));
        for (i++; i < g.len; i++) /* a ] that comes first is itself */
            if (g.ptr[i] == ']')
                return i + 1;
        return 0;
    }
    for (; i < g.len; i++) {
        if (g.ptr[i] == '[') {
            size_t end = group_end(ty_str_drop(g, i));
            if (end == 0)
                return 0;
            i += end - 1;
        } else if (g.ptr[i] == '{' && ++depth > GLOB_DEPTH) {
            return 0;
        } else if (g.ptr[i] == '}' && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

ty_err objects_glob_check(ty_str glob)
{
    if (glob.len > OBJECTS_GLOB_BYTES || !ty_utf8_valid(glob))
        return ty_fail(TY_INVALID_ARGUMENT, "matchGlob must be UTF-8 of at most %d bytes",
                       OBJECTS_GLOB_BYTES);
    size_t braces = 0;
    for (size_t i = 0; i < glob.len; i++)
        braces += glob.ptr[i] == '{';
    if (braces > GLOB_GROUPS) /* each is a copy of the rest, on the stack */
        return ty_fail(TY_INVALID_ARGUMENT, "matchGlob has %zu '{'; at most %d are allowed", braces,
                       GLOB_GROUPS);
    for (size_t i = 0; i < glob.len; i++) {
        if (glob.ptr[i] != '[' && glob.ptr[i] != '{')
            continue;
        size_t end = group_end(ty_str_drop(glob, i));
        if (end == 0)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "matchGlob '" TY_STR_FMT
                           "': the '%c' at byte %zu is not closed, or nested more than %d deep",
                           TY_STR_ARG(glob), glob.ptr[i], i, GLOB_DEPTH);
        i += end - 1;
    }
    return TY_OK;
}

static bool glob_matches(struct glob *x, ty_str g, ty_str s);

/* {a,b}after: each part in turn, joined with what follows. */
static bool braces_match(struct glob *x, ty_str inner, ty_str after, ty_str s)
{
    char joined[OBJECTS_GLOB_BYTES];
    size_t depth = 0, start = 0;
    for (size_t i = 0; i <= inner.len; i++) {
        char c = i < inner.len ? inner.ptr[i] : ',';
        if (c == '[') {
            i += group_end(ty_str_drop(inner, i)) - 1;
            continue;
        }
        depth += c == '{';
        depth -= c == '}';
        if (c != ',' || depth > 0)
            continue;
        size_t n = i - start;
        memcpy(joined, inner.ptr + start, n); /* shorter than the glob it came from: it fits */
        memcpy(joined + n, after.ptr, after.len);
        if (glob_matches(x, (ty_str){joined, n + after.len}, s))
            return true;
        start = i + 1;
    }
    return false;
}

static bool star_matches(struct glob *x, ty_str g, ty_str s)
{
    bool deep = g.len > 1 && g.ptr[1] == '*';
    ty_str rest = g;
    while (rest.len > 0 && rest.ptr[0] == '*')
        rest = ty_str_drop(rest, 1);
    for (;;) {
        if (glob_matches(x, rest, s))
            return true;
        if (s.len == 0 || (!deep && s.ptr[0] == '/') || x->steps == 0)
            return false;
        s = ty_str_drop(s, 1);
    }
}

static bool glob_matches(struct glob *x, ty_str g, ty_str s)
{
    while (g.len > 0) {
        if (x->steps == 0)
            return false;
        x->steps--;
        if (g.ptr[0] == '*')
            return star_matches(x, g, s);
        if (g.ptr[0] == '{') {
            size_t end = group_end(g);
            return braces_match(x, (ty_str){g.ptr + 1, end - 2}, ty_str_drop(g, end), s);
        }
        if (s.len == 0)
            return false;
        ty_str c = {s.ptr, char_len(s)};
        if (g.ptr[0] == '[') {
            if (c.ptr[0] == '/' || !set_matches(&g, c))
                return false;
            s = ty_str_drop(s, c.len);
        } else if (g.ptr[0] == '?') {
            if (c.ptr[0] == '/')
                return false;
            g = ty_str_drop(g, 1);
            s = ty_str_drop(s, c.len);
        } else {
            if (g.ptr[0] != s.ptr[0])
                return false;
            g = ty_str_drop(g, 1);
            s = ty_str_drop(s, 1);
        }
    }
    return s.len == 0;
}

bool objects_glob_match(ty_str glob, ty_str name)
{
    struct glob x = {.steps = GLOB_STEPS};
    return glob_matches(&x, glob, name);
}

/* glob.c -- wildcards in object names.
 *
 *   *      any characters, but of one folder: the listing is by folder
 *   **     any characters, folders as well
 *   ?      one character
 *   [a-z]  one of these, [!a-z] one of the others
 *
 * A name is matched folder by folder: `a/b*c/d*` lists a/b by "/", keeps the folders that match
 * a/b*c, and goes on with d* below each. From the first ** on, all names are listed and matched
 * whole. Matching remembers only the last star, so it takes at most length times length steps. */
#include "storage/storage_int.h"

static size_t character_len(ty_str s)
{
    unsigned char c = (unsigned char)s.ptr[0];
    size_t len = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return len < s.len ? len : s.len;
}

static uint32_t character_at(ty_str s, size_t len)
{
    uint32_t code = 0;
    for (size_t i = 0; i < len; i++)
        code = code << 8 | (unsigned char)s.ptr[i];
    return code; /* the bytes of UTF-8 have the order of what they stand for */
}

/* The `]` that ends the set which begins at pattern[0] == '['; 0: there is none. */
static size_t set_end(ty_str pattern)
{
    size_t i = 1;
    if (i < pattern.len && pattern.ptr[i] == '!')
        i++;
    if (i < pattern.len && pattern.ptr[i] == ']')
        i++;
    while (i < pattern.len && pattern.ptr[i] != ']')
        i++;
    return i < pattern.len ? i : 0;
}

static bool set_has(ty_str set, uint32_t code)
{
    while (set.len > 0) {
        size_t len = character_len(set);
        uint32_t low = character_at(set, len), high = low;
        set = ty_str_drop(set, len);
        if (set.len > 1 && set.ptr[0] == '-') {
            set = ty_str_drop(set, 1);
            len = character_len(set);
            high = character_at(set, len);
            set = ty_str_drop(set, len);
        }
        if (code >= low && code <= high)
            return true;
    }
    return false;
}

/* One character of text against the start of the pattern, which is no star; what was used of the
 * pattern, or 0. */
static size_t match_one(ty_str pattern, ty_str text, size_t text_len)
{
    size_t end;
    if (pattern.ptr[0] == '?')
        return 1;
    if (pattern.ptr[0] == '[' && (end = set_end(pattern)) > 0) {
        bool not = pattern.ptr[1] == '!';
        ty_str set = {pattern.ptr + 1 + not, end - 1 - not };
        return set_has(set, character_at(text, text_len)) != not ? end + 1 : 0;
    }
    size_t len = character_len(pattern);
    return len == text_len && memcmp(pattern.ptr, text.ptr, len) == 0 ? len : 0;
}

bool storage_glob_match(ty_str pattern, ty_str text)
{
    ty_str star = {NULL, 0}, from = text; /* behind the last star, and where it was tried */
    while (text.len > 0) {
        size_t len = character_len(text), used = 0;
        if (pattern.len > 0 && pattern.ptr[0] == '*') {
            pattern = star = ty_str_drop(pattern, 1);
            from = text;
            continue;
        }
        if (pattern.len > 0)
            used = match_one(pattern, text, len);
        if (used > 0) {
            pattern = ty_str_drop(pattern, used);
            text = ty_str_drop(text, len);
        } else if (star.ptr != NULL) {
            from = ty_str_drop(from, character_len(from));
            text = from;
            pattern = star;
        } else {
            return false;
        }
    }
    while (pattern.len > 0 && pattern.ptr[0] == '*')
        pattern = ty_str_drop(pattern, 1);
    return pattern.len == 0;
}

static ty_str without_middle(struct ty_arena *a, ty_str text)
{
    struct ty_buf b;
    ty_buf_init(&b, text.len + 1);
    for (size_t i = 0; i < text.len; i++) {
        bool middle = ty_str_starts(ty_str_drop(text, i), TY_STR("/**/"));
        ty_buf_addc(&b, text.ptr[i]);
        i += middle ? 3 : 0;
    }
    ty_str result = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return result;
}

void storage_pattern_init(struct ty_arena *a, ty_str text, struct storage_pattern *ret_pattern)
{
    struct storage_pattern p = {.ways = {text}, .count = 1};
    ty_str shorter = without_middle(a, text);
    if (shorter.len != text.len)
        p.ways[p.count++] = shorter;
    for (size_t i = 0, n = p.count; i < n; i++)
        if (ty_str_starts(p.ways[i], TY_STR("**/")))
            p.ways[p.count++] = ty_str_drop(p.ways[i], 3);
    *ret_pattern = p;
}

bool storage_pattern_match(const struct storage_pattern *p, ty_str name)
{
    for (size_t i = 0; i < p->count; i++)
        if (storage_glob_match(p->ways[i], name))
            return true;
    return false;
}

static bool has_two_stars(ty_str s)
{
    for (size_t i = 0; i + 2 <= s.len; i++)
        if (s.ptr[i] == '*' && s.ptr[i + 1] == '*')
            return true;
    return false;
}

void storage_step_of(ty_str name, struct storage_step *ret_step)
{
    size_t wild = 0, end;
    while (wild < name.len && !storage_has_wildcard((ty_str){name.ptr + wild, 1}))
        wild++;
    struct storage_step step = {.prefix = {name.ptr, wild}, .here = name, .rest = {"", 0}};
    if (wild < name.len) {
        for (end = wild; end < name.len && name.ptr[end] != '/';)
            end++;
        step.here.len = end;
        step.rest = end < name.len ? ty_str_drop(name, end + 1) : step.rest;
        step.flat = has_two_stars(step.here);
        if (step.flat) {
            step.here = name;
            step.rest.len = 0;
        }
    }
    *ret_step = step;
}

/* fuzz_storage.c -- any bytes as a name on the command line and as a wildcard: "PATTERN\nNAME".
 * What is parsed must be printed and parsed again as the same; a matcher without the shortcuts of
 * ours agrees. */
#include "storage/storage_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 4096, SLOW_BYTES = 12 };

static void check_url(struct ty_arena *a, ty_str text)
{
    struct storage_url url, again;
    if (storage_url_parse(text, STORAGE_GSUTIL, &url) != TY_OK)
        return;
    if (memchr(text.ptr, 0, text.len) != NULL)
        return; /* no command line has one */
    const char *shown = storage_url_text(a, &url);
    ty_assert(storage_url_parse(ty_str_of(shown), STORAGE_GCLOUD, &again) == TY_OK);
    ty_assert(url.cloud == again.cloud && ty_str_eq(url.bucket, again.bucket));
    ty_assert(ty_str_eq(url.name, again.name) && ty_str_eq(url.generation, again.generation));
}

/* The plain way, for patterns of letters, ? and *. */
static bool match_slowly(ty_str pattern, ty_str text)
{
    if (pattern.len == 0)
        return text.len == 0;
    if (pattern.ptr[0] == '*')
        return match_slowly(ty_str_drop(pattern, 1), text) ||
               (text.len > 0 && match_slowly(pattern, ty_str_drop(text, 1)));
    return text.len > 0 && (pattern.ptr[0] == '?' || pattern.ptr[0] == text.ptr[0]) &&
           match_slowly(ty_str_drop(pattern, 1), ty_str_drop(text, 1));
}

static bool is_plain(ty_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] >= 0x80 || s.ptr[i] == '[')
            return false;
    return s.len <= SLOW_BYTES;
}

static void check_glob(struct ty_arena *a, ty_str pattern, ty_str name)
{
    struct storage_pattern p;
    struct storage_step step;
    bool matches = storage_glob_match(pattern, name);
    if (is_plain(pattern) && is_plain(name))
        ty_assert(matches == match_slowly(pattern, name));
    storage_pattern_init(a, pattern, &p);
    ty_assert(!matches || storage_pattern_match(&p, name));
    storage_step_of(pattern, &step);
    ty_assert(ty_str_starts(pattern, step.prefix) && !storage_has_wildcard(step.prefix));
    ty_assert(step.rest.len == 0 || !step.flat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena a = {0};
    ty_str text = {(const char *)data, size < MOST_BYTES ? size : MOST_BYTES}, pattern;
    check_url(&a, text);
    (void)storage_content_type(text);
    ty_str_split(&text, '\n', &pattern);
    check_glob(&a, pattern, text);
    ty_arena_clear(&a);
    return 0;
}

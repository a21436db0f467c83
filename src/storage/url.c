/* url.c -- names on the command line: gs://bucket/name#generation, file://path, path, -
 *
 * As gsutil has it: what has no "://" is a local path; "#" and digits at the end of an object's
 * name are a generation; the part behind the bucket is taken as it stands, slashes and all. */
#include "storage/storage_int.h"

bool storage_has_wildcard(ty_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '*' || text.ptr[i] == '?' || text.ptr[i] == '[' || text.ptr[i] == ']')
            return true;
    return false;
}

/* Where "://" is; text.len if nowhere. */
static size_t scheme_end(ty_str text)
{
    for (size_t i = 0; i + 3 <= text.len; i++)
        if (memcmp(text.ptr + i, "://", 3) == 0)
            return i;
    return text.len;
}

static void generation_cut(struct storage_url *url)
{
    size_t at = url->name.len;
    while (at > 0 && url->name.ptr[at - 1] >= '0' && url->name.ptr[at - 1] <= '9')
        at--;
    if (at < 2 || at == url->name.len || url->name.ptr[at - 1] != '#')
        return;
    url->generation = ty_str_drop(url->name, at);
    url->name.len = at - 1;
}

static const char *error_prefix(enum storage_style style)
{
    return style == STORAGE_GSUTIL ? "InvalidUrlError: " : "";
}

ty_err storage_url_parse(ty_str text, enum storage_style style, struct storage_url *ret_url)
{
    struct storage_url url = {.name = text};
    size_t colon = scheme_end(text);
    ty_str scheme = {text.ptr, colon};
    if (colon == text.len) {
        url.stream = ty_str_is(text, "-");
        *ret_url = url;
        return TY_OK;
    }
    ty_str rest = ty_str_drop(text, colon + 3);
    if (ty_str_is(scheme, "file")) {
        url.name = rest;
        url.stream = ty_str_is(rest, "-");
        *ret_url = url;
        return TY_OK;
    }
    if (!ty_str_is(scheme, "gs") && !ty_str_is(scheme, "GS"))
        return ty_fail(TY_INVALID_ARGUMENT, "%sUnrecognized scheme \"" TY_STR_FMT "\".",
                       error_prefix(style), TY_STR_ARG(scheme));
    if (rest.len > 0 && rest.ptr[0] == '/')
        return ty_fail(TY_INVALID_ARGUMENT,
                       "%sCloud URL scheme should be followed by colon and two slashes: \"://\". "
                       "Found: \"" TY_STR_FMT "\"",
                       error_prefix(style), TY_STR_ARG(text));
    url.cloud = true;
    url.name = (ty_str){"", 0};
    if (ty_str_split(&rest, '/', &url.bucket))
        url.name = rest;
    if (ty_str_is(url.name, ".") || ty_str_is(url.name, ".."))
        return ty_fail(TY_INVALID_ARGUMENT, "%s" TY_STR_FMT " is an invalid root-level object name",
                       error_prefix(style), TY_STR_ARG(url.name));
    generation_cut(&url);
    *ret_url = url;
    return TY_OK;
}

char *storage_url_text(struct ty_arena *a, const struct storage_url *url)
{
    if (!url->cloud)
        return ty_format(a, "file://" TY_STR_FMT, TY_STR_ARG(url->name));
    if (url->bucket.len == 0)
        return ty_format(a, "gs://");
    return ty_format(a, "gs://" TY_STR_FMT "/" TY_STR_FMT "%s" TY_STR_FMT, TY_STR_ARG(url->bucket),
                     TY_STR_ARG(url->name), url->generation.len > 0 ? "#" : "",
                     TY_STR_ARG(url->generation));
}

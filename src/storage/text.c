/* text.c -- what both tools print: errors, sizes, times, content types. */
#include "storage/storage_int.h"

#include <math.h>
#include <strings.h>

enum { NOTE_BYTES = 16 * 1024 };

/* ---- errors and notes ---- */

ty_err storage_fail(const struct storage *s, ty_err code, const char *fmt, ...)
{
    char text[NOTE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return ty_fail(code, "%s%s", s->style == STORAGE_GSUTIL ? "CommandException: " : "", text);
}

void storage_note(const struct storage *s, const char *fmt, ...)
{
    va_list args;
    if (s->quiet)
        return;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
}

/* A bucket that a job wrote to before it was made, or one of somebody else's, such as the public
 * ones that tutorials read from. */
static void say_how_to_bring(const struct storage_conn *c)
{
    int n = (int)c->bucket.len;
    const char *b = c->bucket.ptr;
    if (c->bucket_missing == STORAGE_MISSING_HAS_FOLDER)
        fprintf(stderr,
                "gs://%.*s is not a bucket, but there is a folder of that name in the data "
                "folder's buckets/: 'trainyard storage buckets create gs://%.*s' makes it a "
                "bucket, with its files.\n",
                n, b, n, b);
    else
        fprintf(
            stderr,
            "gs://%.*s is not a bucket of this machine; trainyard storage buckets create gs://%.*s "
            "makes it.\nTo bring data of Google's in: gcloud storage cp -r gs://%.*s/FOLDER . in a "
            "shell that reaches Google, then trainyard storage cp -r FOLDER gs://%.*s/\n",
            n, b, n, b, n, b, n, b);
}

int storage_say_error(struct storage_conn *c, const char *command, ty_err err)
{
    struct storage *s = c->s;
    char *message = ty_err_take();
    fflush(stdout);
    const char *text = message;
    if (err == TY_UNAVAILABLE && c->status == 0 && s->away != NULL)
        text = s->away(s->away_arg, message);
    if (s->style == STORAGE_GSUTIL) {
        fprintf(stderr, "%s\n", text);
    } else if (command == NULL) {
        fprintf(stderr, "ERROR: %s\n", text);
    } else {
        char dotted[64];
        snprintf(dotted, sizeof(dotted), "%s", command);
        for (char *p = dotted; *p != '\0'; p++)
            *p = *p == ' ' ? '.' : *p;
        fprintf(stderr, "ERROR: (%s.storage.%s) %s\n", s->program, dotted, text);
    }
    if (c->bucket_missing)
        say_how_to_bring(c);
    free(message);
    return STORAGE_FAILED;
}

void storage_print(ty_str text)
{
    fwrite(text.ptr, 1, text.len, stdout);
    putchar('\n');
}

/* ---- sizes ---- */

/* gsutil: "1.5 KiB"; gcloud: "1.50kiB". */
const char *storage_human(struct ty_arena *a, int64_t bytes, enum storage_style style)
{
    static const char *const gsutil[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    static const char *const gcloud[] = {"B", "kiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < TY_COUNT(gsutil)) {
        value /= 1024;
        unit++;
    }
    if (style == STORAGE_GCLOUD)
        return ty_format(a, "%.2f%s", value, gcloud[unit]);
    return ty_format(a, "%g %s", round(value * 100) / 100, gsutil[unit]);
}

/* ---- times ---- */

static bool time_split(ty_str text, struct tm *ret_tm)
{
    int64_t ns;
    if (wire_time_parse(text, &ns) != TY_OK)
        return false;
    time_t seconds = (time_t)(ns / 1000000000);
    return gmtime_r(&seconds, ret_tm) != NULL;
}

static const char *time_text(struct ty_arena *a, ty_str rfc3339, const char *format)
{
    struct tm tm;
    char text[64];
    if (!time_split(rfc3339, &tm) || strftime(text, sizeof(text), format, &tm) == 0)
        return "None";
    return ty_cstr(a, ty_str_of(text));
}

const char *storage_date(struct ty_arena *a, ty_str rfc3339)
{
    return time_text(a, rfc3339, "%a, %d %b %Y %H:%M:%S GMT");
}

const char *storage_second(struct ty_arena *a, ty_str rfc3339)
{
    return time_text(a, rfc3339, "%Y-%m-%dT%H:%M:%SZ");
}

const char *storage_stamp(struct ty_arena *a, ty_str rfc3339)
{
    return time_text(a, rfc3339, "%Y-%m-%dT%H:%M:%S+0000");
}

/* ---- storage classes ---- */

static bool is_small(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_capital(char c)
{
    return c >= 'A' && c <= 'Z';
}

const char *storage_class_text(struct ty_arena *a, const char *given, bool capitals)
{
    static const struct {
        const char *name, *class;
    } short_names[] = {{"s", "standard"},  {"std", "standard"},
                       {"nl", "nearline"}, {"cl", "coldline"},
                       {"a", "archive"},   {"dra", "durable_reduced_availability"}};
    for (size_t i = 0; i < TY_COUNT(short_names); i++)
        if (strcasecmp(given, short_names[i].name) == 0)
            given = short_names[i].class;
    char *text = ty_cstr(a, ty_str_of(given));
    for (char *p = text; *p != '\0'; p++)
        if (capitals ? is_small(*p) : is_capital(*p))
            *p ^= 0x20;
    return text;
}

/* ---- content types ---- */

static const struct {
    const char *ending, *type;
} types[] = {
#define TYPE(ending, type) {ending, type},
#include "storage/types.def"
#undef TYPE
};

static ty_str ending_of(ty_str name)
{
    size_t at = name.len;
    while (at > 0 && name.ptr[at - 1] != '.' && name.ptr[at - 1] != '/')
        at--;
    bool none = at <= 1 || name.ptr[at - 1] == '/' || name.ptr[at - 2] == '/';
    return none ? (ty_str){"", 0} : ty_str_drop(name, at);
}

static bool ending_is(ty_str ending, const char *text)
{
    return ending.len == strlen(text) && strncasecmp(ending.ptr, text, ending.len) == 0;
}

/* "x.tar.gz" is a tar file in an envelope; ".tgz" is short for that. */
const char *storage_content_type(ty_str path)
{
    static const char *const envelopes[] = {"gz", "bz2", "xz", "Z", "br"};
    ty_str ending = ending_of(path);
    if (ending_is(ending, "tgz"))
        return "application/x-tar";
    for (size_t i = 0; i < TY_COUNT(envelopes); i++)
        if (ending.len > 0 && ending_is(ending, envelopes[i])) {
            path.len -= ending.len + 1;
            ending = ending_of(path);
            break;
        }
    for (size_t i = 0; i < TY_COUNT(types) && ending.len > 0; i++)
        if (ending_is(ending, types[i].ending))
            return types[i].type;
    return NULL;
}

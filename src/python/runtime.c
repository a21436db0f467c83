/* runtime.c -- from an executor image to the Python packages it stands for.
 *
 * Only the last part of an image's name counts (tf-gpu.2-12.py310:latest), whatever registry it is
 * in: the same image is in three of them. Image 'host' is this machine's Python with what is
 * installed there. */
#include "python/python_int.h"

struct release {
    const char *family;
    int major, minor;
    const char *package, *version;
    int least, most;
    const char *needs;
};
struct family {
    const char *name, *prefixes, *beside;
};
struct alias {
    const char *package, *alias;
};
struct compat {
    const char *family;
    int major, by_major, by_minor;
};
#define FAMILY(...)
#define COMPAT(...)
#define RELEASE(family_, ...) {#family_, __VA_ARGS__},
#define ALIAS(...)
static const struct release releases[] = {
#include "python/runtimes.def"
};
#undef FAMILY
#undef RELEASE
#define FAMILY(name_, ...) {#name_, __VA_ARGS__},
#define RELEASE(...)
static const struct family families[] = {
#include "python/runtimes.def"
};
#undef FAMILY
#undef ALIAS
#define FAMILY(...)
#define ALIAS(...) {__VA_ARGS__},
static const struct alias aliases[] = {
#include "python/runtimes.def"
};
#undef ALIAS
#undef COMPAT
#define ALIAS(...)
#define COMPAT(family_, ...) {#family_, __VA_ARGS__},
static const struct compat compats[] = {
#include "python/runtimes.def"
};
#undef FAMILY
#undef RELEASE
#undef ALIAS
#undef COMPAT

/* What an image's name says. */
struct asked {
    ty_str name; /* without registry and tag */
    const struct family *family;
    int64_t major, minor;
};

static ty_str image_name(ty_str image)
{
    for (size_t i = image.len; i > 0; i--)
        if (image.ptr[i - 1] == '/') {
            image = ty_str_drop(image, i);
            break;
        }
    for (size_t i = 0; i < image.len; i++)
        if (image.ptr[i] == ':' || image.ptr[i] == '@')
            image.len = i;
    return image;
}

static const struct family *family_of(ty_str prefix)
{
    for (size_t i = 0; i < TY_COUNT(families); i++) {
        ty_str rest = ty_str_of(families[i].prefixes), one;
        bool more = true;
        while (more) {
            more = ty_str_split(&rest, ' ', &one);
            if (ty_str_eq(one, prefix))
                return &families[i];
        }
    }
    return NULL;
}

/* An image of a later one is a mistake, not a wish for the newest there is. */
static int newest_major(const struct family *family)
{
    int major = 0;
    for (size_t i = 0; i < TY_COUNT(releases); i++)
        if (strcmp(releases[i].family, family->name) == 0)
            major = releases[i].major > major ? releases[i].major : major;
    return major;
}

/* "tf-gpu.2-12.py310", "pytorch-cpu.1-13" */
static ty_err parse_image(ty_str image, struct asked *ret_asked)
{
    struct asked asked = {.name = image_name(image)};
    ty_str rest = asked.name, prefix, version, major;
    if (ty_str_is(asked.name, "host")) {
        *ret_asked = asked;
        return TY_OK;
    }
    ty_str_split(&rest, '.', &prefix);
    ty_str_split(&rest, '.', &version);
    asked.family = family_of(prefix);
    if (asked.family && ty_str_split(&version, '-', &major) && major.len <= 3 && version.len <= 3 &&
        ty_parse_i64(major, &asked.major) == TY_OK &&
        ty_parse_i64(version, &asked.minor) == TY_OK && asked.major >= 0 && asked.minor >= 0 &&
        asked.major <= newest_major(asked.family)) {
        *ret_asked = asked;
        return TY_OK;
    }
    return ty_fail(TY_INVALID_ARGUMENT,
                   "'%.200s' is no executor image that is known here; they are tf-cpu.2-N, "
                   "tf-gpu.2-N, pytorch-cpu.M-N, pytorch-gpu.M-N, sklearn-cpu.M-N and "
                   "xgboost-cpu.M-N, in any registry and with any tag, and 'host' for this "
                   "machine's own Python",
                   image.ptr);
}

ty_err python_image_check(ty_str image)
{
    struct asked ignored;
    return parse_image(image, &ignored);
}

/* The exact release, else the nearest newer one, else the newest older one. NULL: the host's Python
 * has none. */
static const struct release *release_find(const struct asked *asked, int python_minor)
{
    const struct release *older = NULL;
    for (size_t i = 0; i < TY_COUNT(releases); i++) {
        const struct release *r = &releases[i];
        if (strcmp(r->family, asked->family->name) != 0 || python_minor < r->least ||
            python_minor > r->most)
            continue;
        if (r->major > asked->major || (r->major == asked->major && r->minor >= asked->minor))
            return r;
        older = r;
    }
    return older;
}

/* The row for releases of which there are none; NULL: none is needed. */
static const struct compat *compat_find(const struct asked *asked)
{
    for (size_t i = 0; i < TY_COUNT(compats); i++)
        if (strcmp(compats[i].family, asked->family->name) == 0 && compats[i].major == asked->major)
            return &compats[i];
    return NULL;
}

static void make_key(const struct python_host *host, struct python_runtime *r)
{
    struct wire_sha256 h;
    wire_sha256_init(&h);
    wire_sha256_adds(&h, TY_STR("runtime 1"));
    wire_sha256_adds(&h, ty_str_of(host->executable));
    wire_sha256_adds(&h, ty_str_of(host->version));
    wire_sha256_adds(&h, ty_str_of(r->family));
    for (size_t i = 0; r->requirements[i]; i++)
        wire_sha256_adds(&h, ty_str_of(r->requirements[i]));
    wire_sha256_end(&h, r->key);
}

ty_err python_runtime_find(struct ty_arena *a, ty_str image, const struct python_host *host,
                           struct python_runtime *ret_runtime)
{
    struct asked asked;
    ty_err err = parse_image(image, &asked);
    if (err != TY_OK)
        return err;
    struct python_runtime r = {.image = ty_cstr(a, asked.name)};
    size_t count = 0;
    /* From 70.1 on setuptools makes wheels by itself; tensorboard needs one below 82. */
    r.requirements[count++] = "setuptools>=70.1,<82";
    if (!asked.family) {
        r.family = "host";
        r.exact = true;
        r.what = ty_format(a, "this machine's Python %s", host->version);
    } else {
        const struct compat *compat = compat_find(&asked);
        struct asked nearest = asked;
        if (compat) {
            nearest.major = compat->by_major;
            nearest.minor = compat->by_minor;
        }
        const struct release *release = release_find(&nearest, host->minor);
        if (!release)
            return ty_fail(TY_FAILED_PRECONDITION,
                           "no release of '%s' has wheels for this machine's Python %s; set "
                           "another one with the setting 'python'",
                           asked.family->name, host->version);
        r.family = asked.family->name;
        r.gpu = memmem(asked.name.ptr, asked.name.len, "-gpu", 4) != NULL;
        r.exact = release->major == asked.major && release->minor == asked.minor;
        r.compat_v1 = compat != NULL;
        r.what =
            ty_format(a, "%s %s on Python %s", release->package, release->version, host->version);
        r.requirements[count++] = ty_format(a, "%s==%s", release->package, release->version);
        if (release->needs[0])
            r.requirements[count++] = release->needs;
        ty_str rest = ty_str_of(asked.family->beside), one;
        bool more = true;
        while (more && count < PYTHON_REQUIREMENTS - 1) {
            more = ty_str_split(&rest, ' ', &one);
            r.requirements[count++] = ty_cstr(a, one);
        }
    }
    make_key(host, &r);
    *ret_runtime = r;
    return TY_OK;
}

const char *runtime_alias(ty_str package, size_t n)
{
    for (size_t i = 0; i < TY_COUNT(aliases); i++)
        if (ty_str_is(package, aliases[i].package) && n-- == 0)
            return aliases[i].alias;
    return NULL;
}

/* "2.8" -> "tf-cpu.2-8" */
ty_err python_legacy_image(struct ty_arena *a, ty_str runtime_version, bool gpu,
                           const char **ret_image)
{
    ty_str minor = runtime_version, major;
    int64_t numbers[2];
    if (!ty_str_split(&minor, '.', &major) || major.len > 3 || minor.len > 3 ||
        ty_parse_i64(major, &numbers[0]) != TY_OK || ty_parse_i64(minor, &numbers[1]) != TY_OK ||
        numbers[0] < 0 || numbers[1] < 0)
        return ty_fail(
            TY_INVALID_ARGUMENT,
            "runtimeVersion '" TY_STR_FMT "' is not of the form MAJOR.MINOR, such as 2.11",
            (int)(runtime_version.len < 100 ? runtime_version.len : 100), runtime_version.ptr);
    if (numbers[0] != 1 && numbers[0] != 2)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "runtimeVersion '" TY_STR_FMT "' stands for TensorFlow %" PRId64
                       ", which is not known here; 1.x and 2.x are",
                       TY_STR_ARG(runtime_version), numbers[0]);
    *ret_image =
        ty_format(a, "tf-%s.%" PRId64 "-%" PRId64, gpu ? "gpu" : "cpu", numbers[0], numbers[1]);
    return TY_OK;
}

/* ---- names in a request ---- */

const char *python_package_path(struct ty_arena *a, ty_str uri)
{
    if (ty_str_starts(uri, TY_STR("file://")))
        uri = ty_str_drop(uri, strlen("file://"));
    return ty_str_starts(uri, TY_STR("/")) && !memchr(uri.ptr, '\0', uri.len) ? ty_cstr(a, uri)
                                                                              : NULL;
}

static bool identifier_is_valid(ty_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
        if (!letter && !(i > 0 && c >= '0' && c <= '9'))
            return false;
    }
    return s.len > 0;
}

bool python_module_is_valid(ty_str module)
{
    ty_str part;
    bool more = true;
    while (more) {
        more = ty_str_split(&module, '.', &part);
        if (!identifier_is_valid(part))
            return false;
    }
    return true;
}

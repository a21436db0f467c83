/* types.c -- machine types by name, from machines.def. */
#include "machine/machine.h"

#include <ctype.h>

enum { SIZES = 16, NAME_BYTES = 48 };

/* A row of machines.def: a series has sizes; one type has a name of its own. */
struct family {
    const char *name;
    const char *alias_of; /* its CPUs and memory; NULL: it has its own */
    int memory_milli;     /* a series: thousandths of a GB a CPU */
    int sizes[SIZES];     /* a series: CPUs, 0 ends the list; one type: its CPUs alone */
    int memory_gb;        /* one type */
    int accelerators;
    const char *accelerator;
};

static const struct family families[] = {
#define SERIES(name_, memory_, ...)                                                                \
    {.name = name_, .memory_milli = memory_, .sizes = {__VA_ARGS__}},
#define GPUS(name_, cpus_, gb_, count_, type_)                                                     \
    {.name = name_,                                                                                \
     .sizes = {cpus_},                                                                             \
     .memory_gb = gb_,                                                                             \
     .accelerators = count_,                                                                       \
     .accelerator = type_},
#define ALIAS(name_, of_, count_, type_)                                                           \
    {.name = name_, .alias_of = of_, .accelerators = count_, .accelerator = type_},
#include "machine/machines.def"
#undef SERIES
#undef GPUS
#undef ALIAS
};

static const int64_t gb = INT64_C(1) << 30;

/* Is `name` the series' name and one of its sizes? */
static bool series_has(const struct family *f, ty_str name, int64_t *ret_cpus)
{
    ty_str prefix = ty_str_of(f->name);
    int64_t cpus;
    if (!ty_str_starts(name, prefix) || name.len < prefix.len + 2 || name.ptr[prefix.len] != '-' ||
        name.ptr[prefix.len + 1] == '0' ||
        ty_parse_i64(ty_str_drop(name, prefix.len + 1), &cpus) != TY_OK)
        return false;
    for (size_t i = 0; i < SIZES && f->sizes[i]; i++)
        if (f->sizes[i] == cpus) {
            *ret_cpus = cpus;
            return true;
        }
    return false;
}

static bool family_has(const struct family *f, ty_str name, struct machine_type *ret_type)
{
    int64_t cpus = f->sizes[0], memory_bytes = f->memory_gb * gb;
    if (f->memory_milli) {
        if (!series_has(f, name, &cpus))
            return false;
        memory_bytes = cpus * f->memory_milli * gb / 1000;
    } else if (!ty_str_is(name, f->name)) {
        return false;
    }
    *ret_type = (struct machine_type){.cpu_milli = cpus * 1000,
                                      .memory_bytes = memory_bytes,
                                      .accelerators = f->accelerators,
                                      .accelerator = f->accelerator};
    return true;
}

static const struct family *family_of(ty_str name, struct machine_type *ret_type)
{
    for (size_t i = 0; i < TY_COUNT(families); i++)
        if (family_has(&families[i], name, ret_type))
            return &families[i];
    return NULL;
}

void machine_type_visit(void (*visit)(void *arg, ty_str name), void *arg)
{
    for (size_t i = 0; i < TY_COUNT(families); i++) {
        const struct family *f = &families[i];
        if (!f->memory_milli)
            visit(arg, ty_str_of(f->name));
        for (size_t k = 0; f->memory_milli && k < SIZES && f->sizes[k]; k++) {
            char name[NAME_BYTES];
            snprintf(name, sizeof name, "%s-%d", f->name, f->sizes[k]);
            visit(arg, ty_str_of(name));
        }
    }
}

struct search {
    ty_str wrong;
    int least;
    char best[NAME_BYTES];
};

static void search_look(void *arg, ty_str name)
{
    struct search *s = arg;
    int d = ty_str_distance(s->wrong, name);
    if (d < s->least) {
        s->least = d;
        snprintf(s->best, sizeof s->best, TY_STR_FMT, TY_STR_ARG(name));
    }
}

/* The size of a series that is nearest to the one asked for, where the name has a series and a
 * number: edits of a number say nothing about it. */
static void search_sizes(struct search *s)
{
    for (size_t i = 0; i < TY_COUNT(families); i++) {
        const struct family *f = &families[i];
        ty_str prefix = ty_str_of(f->name);
        int64_t asked, best = INT64_MAX;
        if (!f->memory_milli || !ty_str_starts(s->wrong, prefix) || s->wrong.len < prefix.len + 2 ||
            s->wrong.ptr[prefix.len] != '-' ||
            ty_parse_i64(ty_str_drop(s->wrong, prefix.len + 1), &asked) != TY_OK || asked < 0)
            continue;
        for (size_t k = 0; k < SIZES && f->sizes[k]; k++) {
            int64_t off = asked > f->sizes[k] ? asked - f->sizes[k] : f->sizes[k] - asked;
            if (off < best)
                snprintf(s->best, sizeof s->best, "%s-%d", f->name, f->sizes[k]);
            best = off < best ? off : best;
        }
    }
}

ty_err machine_type_find(ty_str name, struct machine_type *ret_type)
{
    struct machine_type type;
    const struct family *f = family_of(name, &type);
    if (f && f->alias_of) {
        struct machine_type of;
        ty_assert(family_of(ty_str_of(f->alias_of), &of));
        type.cpu_milli = of.cpu_milli;
        type.memory_bytes = of.memory_bytes;
    }
    if (f) {
        *ret_type = type;
        return TY_OK;
    }
    char lower[NAME_BYTES] = "";
    for (size_t i = 0; i < name.len && name.len < sizeof lower; i++)
        lower[i] = (char)tolower((unsigned char)name.ptr[i]);
    struct search s = {.wrong = ty_str_of(lower), .least = (int)strlen(lower) / 2 + 1};
    search_sizes(&s);
    if (!s.best[0])
        machine_type_visit(search_look, &s);
    return ty_fail(TY_NOT_FOUND, "no machine type is called '%.*s'%s%s%s",
                   (int)(name.len < 64 ? name.len : 64), name.ptr,
                   s.best[0] ? "; did you mean " : ": types are such as ",
                   s.best[0] ? s.best : MACHINE_DEFAULT, s.best[0] ? "?" : "");
}

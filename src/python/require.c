/* require.c -- the few texts of Python packaging that we read: requirements, METADATA, WHEEL,
 * pyproject.toml and what `pip check` prints.
 *
 * Only names are cut out here. Whether a version fits and a marker holds is for pip to say: it is
 * handed the texts as they are. */
#include "python/python_int.h"

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

char *name_normal(struct ty_arena *a, ty_str name)
{
    char *out = ty_alloc(a, name.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c == '_' || c == '.')
            c = '-';
        if (c == '-' && n > 0 && out[n - 1] == '-')
            continue;
        out[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return out;
}

ty_str requirement_name(ty_str requirement)
{
    ty_str name = ty_str_trim(requirement);
    for (size_t i = 0; i < name.len; i++)
        if (!is_name_char(name.ptr[i]))
            name.len = i;
    return name;
}

ty_str requirement_bare(ty_str requirement)
{
    ty_str bare;
    ty_str_split(&requirement, ';', &bare);
    return ty_str_trim(bare);
}

bool requirement_is_special(ty_str requirement)
{
    ty_str bare = requirement_bare(requirement);
    ty_str rest = ty_str_trim(ty_str_drop(bare, requirement_name(bare).len));
    return rest.len > 0 && (rest.ptr[0] == '[' || rest.ptr[0] == '@');
}

/* The value of a header line; false: it is another one. */
static bool header_value(ty_str line, const char *name, ty_str *ret_value)
{
    size_t len = strlen(name);
    if (line.len <= len || strncasecmp(line.ptr, name, len) != 0 || line.ptr[len] != ':')
        return false;
    *ret_value = ty_str_trim(ty_str_drop(line, len + 1));
    return true;
}

ty_err metadata_parse(struct ty_arena *a, ty_str text, struct metadata *m)
{
    ty_str line, value;
    bool more = true, in_requires = false;
    m->name = NULL;
    while (more) {
        more = ty_str_split(&text, '\n', &line);
        bool folded = line.len > 0 && (line.ptr[0] == ' ' || line.ptr[0] == '\t');
        line = ty_str_trim(line);
        if (line.len == 0) /* the headers are over; what follows is the README */
            break;
        if (folded && in_requires) {
            const char **last = &m->requires->list[m->requires->count - 1];
            *last = ty_format(a, "%s " TY_STR_FMT, *last, TY_STR_ARG(line));
        } else if (!folded) {
            in_requires = header_value(line, "Requires-Dist", &value);
            if (in_requires)
                words_add(m->requires, ty_cstr(a, value));
            else if (!m->name && header_value(line, "Name", &value) && value.len > 0 &&
                     requirement_name(value).len == value.len)
                m->name = name_normal(a, value);
        }
    }
    return m->name ? TY_OK : ty_fail(TY_DATA_LOSS, "the package's METADATA has no name");
}

/* Cut `s` at the last `mark`: what follows it is *ret_tail. */
static bool cut_last(ty_str *s, const char *mark, ty_str *ret_tail)
{
    size_t len = strlen(mark);
    for (size_t i = s->len; i >= len; i--)
        if (memcmp(s->ptr + i - len, mark, len) == 0) {
            *ret_tail = ty_str_drop(*s, i);
            s->len = i - len;
            return true;
        }
    return false;
}

/* "a 1.0 requires b, which is not installed." or "a 1.0 has requirement b>=2, but you have b 1.0."
 */
bool complaint_parse(ty_str line, struct complaint *ret_complaint)
{
    struct complaint c = {0};
    ty_str version, tail, rest = ty_str_trim(line);
    if (!ty_str_split(&rest, ' ', &c.owner) || !ty_str_split(&rest, ' ', &version))
        return false;
    if (ty_str_starts(rest, TY_STR("requires ")) &&
        cut_last(&rest, ", which is not installed.", &tail)) {
        c.requirement = ty_str_trim(ty_str_drop(rest, strlen("requires ")));
    } else if (ty_str_starts(rest, TY_STR("has requirement ")) &&
               cut_last(&rest, ", but you have ", &tail)) {
        c.requirement = ty_str_trim(ty_str_drop(rest, strlen("has requirement ")));
        if (!ty_str_split(&tail, ' ', &version) || tail.len < 2)
            return false;
        c.have = tail;
        c.have.len -= tail.ptr[tail.len - 1] == '.';
    } else {
        return false;
    }
    if (requirement_name(c.requirement).len == 0)
        return false;
    *ret_complaint = c;
    return true;
}

/* ---- pyproject.toml ---- */

/* The text between the [build-system] line and the next table. */
static ty_str build_system(ty_str text)
{
    ty_str line, section = {0};
    bool more = true;
    while (more) {
        more = ty_str_split(&text, '\n', &line);
        if (section.ptr && line.len > 0 && line.ptr[0] == '[') {
            section.len = (size_t)(line.ptr - section.ptr);
            return section;
        }
        if (ty_str_starts(line, TY_STR("[build-system]")))
            section = text;
    }
    return section;
}

/* requires = [ "a", 'b>=1' ]: every name must be one that the runtime has. */
static bool list_is_here(ty_str list)
{
    for (size_t i = 0; i < list.len && list.ptr[i] != ']'; i++) {
        char quote = list.ptr[i];
        if (quote != '"' && quote != '\'')
            continue;
        ty_str rest = ty_str_drop(list, i + 1), item;
        ty_str_split(&rest, quote, &item);
        ty_str name = requirement_name(item);
        static const char *const here[] = {"setuptools", "wheel"};
        bool known = false;
        for (size_t k = 0; k < TY_COUNT(here); k++)
            known |= name.len == strlen(here[k]) && strncasecmp(name.ptr, here[k], name.len) == 0;
        if (!known || requirement_is_special(item))
            return false;
        i += item.len + 1;
    }
    return true;
}

bool pyproject_builds_here(ty_str text)
{
    ty_str section = build_system(text), line;
    bool more = section.len > 0;
    while (more) {
        more = ty_str_split(&section, '\n', &line);
        ty_str trimmed = ty_str_trim(line);
        if (!ty_str_starts(trimmed, TY_STR("requires")))
            continue;
        ty_str value = ty_str_trim(ty_str_drop(trimmed, strlen("requires")));
        if (!ty_str_starts(value, TY_STR("=")))
            continue;
        /* The list may go on over the next lines: all up to the section's end follows. */
        const char *end = section.ptr + section.len;
        return list_is_here((ty_str){value.ptr + 1, (size_t)(end - value.ptr - 1)});
    }
    return true; /* setup.py alone means setuptools */
}

/* ---- wheels ---- */

static bool is_file_word(ty_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_name_char(s.ptr[i]) && s.ptr[i] != '+' && s.ptr[i] != '!')
            return false;
    return s.len > 0 && s.len <= PYTHON_NAME_BYTES && s.ptr[0] != '.';
}

/* Each Tag is python-abi-platform; the file's name has each part once, joined by dots. */
char *wheel_name(struct ty_arena *a, ty_str dist_info, ty_str wheel)
{
    struct words parts[3] = {{.a = a}, {.a = a}, {.a = a}};
    ty_str line, value, base = dist_info;
    bool more = true;
    if (!ty_str_ends(base, TY_STR(".dist-info")))
        return NULL;
    base.len -= strlen(".dist-info");
    while (more) {
        more = ty_str_split(&wheel, '\n', &line);
        ty_str one[3];
        if (!header_value(line, "Tag", &value) || !ty_str_split(&value, '-', &one[0]) ||
            !ty_str_split(&value, '-', &one[1]))
            continue;
        one[2] = value;
        for (int i = 0; i < 3; i++)
            if (is_file_word(one[i]))
                words_add_once(&parts[i], ty_cstr(a, one[i]));
    }
    static const char *const any[] = {"py3", "none", "any"};
    for (int i = 0; i < 3; i++)
        if (parts[i].count == 0)
            words_add(&parts[i], any[i]);
    char *name =
        ty_format(a, TY_STR_FMT "-%s-%s-%s.whl", TY_STR_ARG(base), words_join(&parts[0], "."),
                  words_join(&parts[1], "."), words_join(&parts[2], "."));
    return is_file_word(base) && memchr(base.ptr, '-', base.len) && strlen(name) < NAME_MAX ? name
                                                                                            : NULL;
}

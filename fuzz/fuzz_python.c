/* fuzz_python.c -- any bytes as the texts of Python packaging: METADATA, WHEEL, pyproject.toml,
 * lines of pip check, an image's name. Read or refused; a wheel's name is never a path. */
#include "python/python_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena a = {0};
    ty_str text = ty_str_dup(&a, (ty_str){(const char *)data, size}), rest = text, line;
    struct words requires = {.a = &a};
    struct metadata m = {.requires = &requires};
    struct complaint c;
    if (metadata_parse(&a, text, &m) == TY_OK)
        ty_assert(m.name[0] != '\0');
    for (size_t i = 0; i < requires.count; i++) {
        ty_str one = ty_str_of(requires.list[i]);
        ty_assert(requirement_name(one).len <= requirement_bare(one).len);
        requirement_is_special(one);
    }
    pyproject_builds_here(text);
    ty_str_split(&rest, '\n', &line);
    char *name = wheel_name(&a, line, rest);
    ty_assert(!name || (!strchr(name, '/') && name[0] != '.'));
    if (complaint_parse(line, &c))
        ty_assert(requirement_name(c.requirement).len > 0);
    const char *image;
    if (python_image_check(line) == TY_OK)
        python_module_is_valid(line);
    if (python_legacy_image(&a, line, true, &image) == TY_OK)
        ty_assert(python_image_check(ty_str_of(image)) == TY_OK);
    ty_arena_clear(&a);
    return 0;
}

/* config.c -- settings: defaults from config.def, then "key = value" lines. */
#include "base/base.h"

void ty_config_init(struct ty_config *c, struct ty_arena *a)
{
#define SETTING_INT(name, def, min, max, doc) c->name = (def);
#define SETTING_STR(name, def, doc)           c->name = ty_cstr(a, TY_STR(def));
#define SETTING_WORD(name, def, words, doc)   c->name = ty_cstr(a, TY_STR(def));
#include "base/config.def"
#undef SETTING_INT
#undef SETTING_STR
#undef SETTING_WORD
}

static ty_err set_int(const char *key, ty_str value, int64_t min, int64_t max, int64_t *ret_value)
{
    int64_t n;
    if (ty_parse_i64(value, &n) != TY_OK)
        return ty_wrap(TY_INVALID_ARGUMENT, "%s", key);
    if (n < min || n > max)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "%s: %" PRId64 " is not between %" PRId64 " and %" PRId64, key, n, min, max);
    *ret_value = n;
    return TY_OK;
}

/* `words` as config.def has them: "share | fit | strict". */
static ty_err set_word(struct ty_arena *a, const char *key, ty_str value, const char *words,
                       char **ret_value)
{
    ty_str rest = ty_str_of(words), word;
    bool more = true;
    while (more) {
        more = ty_str_split(&rest, '|', &word);
        if (ty_str_eq(ty_str_trim(word), value)) {
            *ret_value = ty_cstr(a, value);
            return TY_OK;
        }
    }
    return ty_fail(TY_INVALID_ARGUMENT, "%s: '%.*s' is none of %s", key,
                   (int)(value.len < 64 ? value.len : 64), value.ptr, words);
}

ty_err ty_config_set(struct ty_config *c, struct ty_arena *a, ty_str key, ty_str value)
{
#define SETTING_INT(name, def, min, max, doc)                                                      \
    if (ty_str_is(key, #name))                                                                     \
        return set_int(#name, value, (min), (max), &c->name);
#define SETTING_STR(name, def, doc)                                                                \
    if (ty_str_is(key, #name)) {                                                                   \
        c->name = ty_cstr(a, value);                                                               \
        return TY_OK;                                                                              \
    }
#define SETTING_WORD(name, def, words, doc)                                                        \
    if (ty_str_is(key, #name))                                                                     \
        return set_word(a, #name, value, words, &c->name);
#include "base/config.def"
#undef SETTING_INT
#undef SETTING_STR
#undef SETTING_WORD
    return ty_fail(TY_INVALID_ARGUMENT, "no setting is called '%.*s'",
                   (int)(key.len < 64 ? key.len : 64), key.ptr);
}

ty_err ty_config_parse(struct ty_config *c, struct ty_arena *a, const char *path, ty_str text)
{
    for (int line = 1; text.len; line++) {
        ty_str row, key;
        ty_str_split(&text, '\n', &row);
        ty_str without_comment;
        ty_str_split(&row, '#', &without_comment);
        row = ty_str_trim(without_comment);
        if (row.len == 0)
            continue;
        if (!ty_str_split(&row, '=', &key))
            return ty_fail(TY_INVALID_ARGUMENT, "%s:%d: expected 'key = value'", path, line);
        ty_err err = ty_config_set(c, a, ty_str_trim(key), ty_str_trim(row));
        if (err != TY_OK)
            return ty_wrap(err, "%s:%d", path, line);
    }
    return TY_OK;
}

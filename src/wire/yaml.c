/* yaml.c -- one YAML document into JSON values.
 *
 * Built on libyaml's events with a stack of our own, so depth and number of
 * values are bounded as they are read. An alias becomes a copy of what its anchor
 * names, and the copy counts as if it had been written out: nine lines of aliases
 * can ask for a billion values, and are refused at the one that is too many. The
 * copied text has a ceiling as well, because one long string is a single value.
 * Plain scalars are read by yaml_scalar.c. A mapping that `<<` merges (YAML 1.1) and
 * the value of a key that is there already are kept aside while they are read. */
#include "wire/wire_int.h"

#include <yaml.h>

enum { COPIED_BYTES = 1 << 24 }; /* text that aliases may repeat, in one document */

struct level {
    json_t *container; /* borrowed from the container it is in, or from loader.root */
    char *key;         /* in a mapping: the key whose value comes next; ours to free */
    bool aside;        /* that value is not of this mapping: a merge, or a key again */
    bool merging;      /* it is a merge */
    json_t *merge;     /* borrowed from loader.aside: what `<<` has named, NULL for nothing */
};
struct loader {
    yaml_parser_t parser;
    json_t *root;    /* owned */
    json_t *anchors; /* owned: name to the value it names last, also while that is being read */
    json_t *aside;   /* owned: values that are in no container */
    struct ty_buf *warnings; /* YAML 1.1 if there is one */
    struct level levels[WIRE_MAX_DEPTH];
    size_t depth, values, copied_bytes;
    ty_str text;
};

/* Lines as people count them. */
static size_t line_of(const yaml_event_t *e)
{
    return e->start_mark.line + 1;
}

static ty_err syntax_fail(const struct loader *l)
{
    const yaml_parser_t *p = &l->parser;
    const char *problem = p->problem ? p->problem : "not YAML";
    if (p->error == YAML_MEMORY_ERROR)
        return ty_fail(TY_RESOURCE_EXHAUSTED, "YAML: out of memory");
    if (p->error != YAML_READER_ERROR)
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu, column %zu: %s%s%s",
                       p->problem_mark.line + 1, p->problem_mark.column + 1,
                       p->context ? p->context : "", p->context ? ", " : "", problem);
    size_t line = 1; /* bad bytes: libyaml knows the offset only */
    for (size_t i = 0; i < p->problem_offset && i < l->text.len; i++)
        line += l->text.ptr[i] == '\n';
    return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: %s (byte %zu)", line, problem,
                   p->problem_offset);
}

static ty_err check_tag(const yaml_event_t *e, const yaml_char_t *tag, const char *allowed)
{
    const char *t = (const char *)tag;
    if (!t || strcmp(t, "!") == 0 || strcmp(t, allowed) == 0)
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: the tag '%.60s' is not supported",
                   line_of(e), t);
}

static ty_err scalar_value(const struct loader *l, const yaml_event_t *e, json_t **ret_value)
{
    const char *s = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;
    const char *tag = (const char *)e->data.scalar.tag;
    bool ours = tag == NULL || strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0;
    if (memchr(s, 0, len))
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: a NUL character", line_of(e));
    if (!ours && l->warnings != NULL)
        return wire_yaml11_tagged(tag, s, len, line_of(e), ret_value);
    ty_err err = check_tag(e, e->data.scalar.tag, YAML_STR_TAG);
    if (err)
        return err;
    if (e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !e->data.scalar.tag)
        return l->warnings != NULL ? wire_yaml11_plain(s, len, line_of(e), ret_value)
                                   : wire_yaml_plain(s, len, line_of(e), ret_value);
    *ret_value = json_stringn(s, len);
    return TY_OK;
}

/* A key that the mapping has already: wrong, or, in YAML 1.1 as gcloud reads it, not counted. */
static ty_err key_again(struct loader *l, struct level *top, const yaml_event_t *e, const char *s)
{
    if (l->warnings == NULL)
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: the key '%.60s' is there twice",
                       line_of(e), s);
    ty_buf_addf(l->warnings, "line %zu: the key '%.60s' is there twice; the first one counts\n",
                line_of(e), s);
    top->aside = true;
    return TY_OK;
}

/* The next scalar is a key: check it and keep it in its level. */
static ty_err take_key(struct loader *l, struct level *top, const yaml_event_t *e)
{
    if (e->type != YAML_SCALAR_EVENT)
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: a key must be a scalar", line_of(e));
    const char *s = (const char *)e->data.scalar.value;
    if (memchr(s, 0, e->data.scalar.length))
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: a NUL character", line_of(e));
    ty_err err = TY_OK;
    bool merge = l->warnings != NULL && strcmp(s, "<<") == 0 &&
                 e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (merge && top->merge == NULL)
        top->aside = top->merging = true;
    else if (merge || json_object_get(top->container, s) != NULL)
        err = key_again(l, top, e, s);
    if (err != TY_OK)
        return err;
    top->key = strdup(s);
    ty_assert(top->key);
    return TY_OK;
}

/* ---- merge keys ---- */

static void merge_into(json_t *to, const json_t *from)
{
    const char *key;
    json_t *member;
    json_object_foreach ((json_t *)from, key, member) {
        if (json_object_get(to, key) == NULL)
            json_object_set(to, key, member);
    }
}

/* A mapping has ended: add what `<<` names and it does not have itself. Of a list the first wins.
 */
static ty_err merge_apply(const struct level *top, const yaml_event_t *e)
{
    json_t *one;
    size_t i;
    bool good = json_is_object(top->merge) || json_is_array(top->merge);
    json_array_foreach (top->merge, i, one) {
        good = good && json_is_object(one);
    }
    if (!good)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "YAML at line %zu: '<<' takes a mapping or a list of mappings", line_of(e));
    json_array_foreach (top->merge, i, one) {
        merge_into(top->container, one);
    }
    merge_into(top->container, top->merge);
    return TY_OK;
}

static ty_err count_value(struct loader *l, const yaml_event_t *e)
{
    if (++l->values > WIRE_MAX_VALUES)
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: more than %d values", line_of(e),
                       WIRE_MAX_VALUES);
    return TY_OK;
}

static ty_err levels_fail(const yaml_event_t *e)
{
    return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: more than %d levels", line_of(e),
                   WIRE_MAX_DEPTH);
}

/* ---- anchors and aliases ---- */

static void anchor_set(struct loader *l, const yaml_char_t *name, json_t *value)
{
    if (name != NULL) {
        int failed = json_object_set(l->anchors, (const char *)name, value);
        ty_assert(failed == 0); /* libyaml's names are ASCII */
    }
}

static ty_err count_copied(struct loader *l, const yaml_event_t *e, size_t bytes)
{
    l->copied_bytes += bytes;
    if (l->copied_bytes > COPIED_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: aliases repeat more than %d bytes",
                       line_of(e), COPIED_BYTES);
    return count_value(l, e);
}

/* A copy for a place under `depth` containers; it recurses no deeper than WIRE_MAX_DEPTH. On
 * failure *ret_copy is what was made until then. */
static ty_err value_copy(struct loader *l, const yaml_event_t *e, const json_t *from, size_t depth,
                         json_t **ret_copy)
{
    const char *key;
    json_t *member;
    size_t i;
    ty_err err = count_copied(l, e, json_string_length(from));
    if (err != TY_OK)
        return err;
    if (!json_is_object(from) && !json_is_array(from)) {
        *ret_copy = json_deep_copy(from);
        return TY_OK;
    }
    if (depth == WIRE_MAX_DEPTH)
        return levels_fail(e);
    json_t *to = *ret_copy = json_is_object(from) ? json_object() : json_array();
    json_array_foreach (from, i, member) {
        json_t *copy = NULL;
        err = value_copy(l, e, member, depth + 1, &copy);
        if (copy != NULL)
            json_array_append_new(to, copy);
        if (err != TY_OK)
            return err;
    }
    json_object_foreach ((json_t *)from, key, member) {
        json_t *copy = NULL;
        err = count_copied(l, e, strlen(key));
        if (err == TY_OK)
            err = value_copy(l, e, member, depth + 1, &copy);
        if (copy != NULL)
            json_object_set_new(to, key, copy);
        if (err != TY_OK)
            return err;
    }
    return TY_OK;
}

static ty_err alias_value(struct loader *l, const yaml_event_t *e, json_t **ret_value)
{
    const char *name = (const char *)e->data.alias.anchor;
    const json_t *from = json_object_get(l->anchors, name);
    if (from == NULL)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "YAML at line %zu: no anchor '&%.40s' comes before the alias '*%.40s'",
                       line_of(e), name, name);
    for (size_t i = 0; i < l->depth; i++)
        if (l->levels[i].container == from)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "YAML at line %zu: the alias '*%.40s' is inside what '&%.40s' names",
                           line_of(e), name, name);
    l->values--; /* the copy counts, the alias does not */
    return value_copy(l, e, from, l->depth, ret_value);
}

/* Put a new value (whose reference we own) where it belongs; containers are entered. */
static ty_err place_value(struct loader *l, const yaml_event_t *e, json_t *value)
{
    ty_assert(value);
    if (l->depth == 0) {
        l->root = value;
    } else {
        struct level *top = &l->levels[l->depth - 1];
        int failed = top->aside ? json_array_append_new(l->aside, value)
                     : top->key ? json_object_set_new(top->container, top->key, value)
                                : json_array_append_new(top->container, value);
        ty_assert(failed == 0);
        top->merge = top->merging ? value : top->merge;
        top->aside = top->merging = false;
        free(top->key);
        top->key = NULL;
    }
    if (e->type == YAML_SCALAR_EVENT || e->type == YAML_ALIAS_EVENT)
        return TY_OK;
    if (l->depth == WIRE_MAX_DEPTH)
        return levels_fail(e);
    l->levels[l->depth++] = (struct level){.container = value};
    return TY_OK;
}

/* The value that an event starts, as yet empty if it is a container. May be set on failure too. */
static ty_err event_value(struct loader *l, const yaml_event_t *e, json_t **ret_value)
{
    const yaml_char_t *anchor = NULL;
    ty_err err = TY_OK;
    if (e->type == YAML_ALIAS_EVENT)
        return alias_value(l, e, ret_value);
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        err = scalar_value(l, e, ret_value);
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        err = check_tag(e, e->data.sequence_start.tag, YAML_SEQ_TAG);
        *ret_value = json_array();
    } else {
        anchor = e->data.mapping_start.anchor;
        err = check_tag(e, e->data.mapping_start.tag, YAML_MAP_TAG);
        *ret_value = json_object();
    }
    if (err == TY_OK)
        anchor_set(l, anchor, *ret_value);
    return err;
}

static ty_err take_value(struct loader *l, const yaml_event_t *e)
{
    ty_err err = count_value(l, e);
    if (err != TY_OK)
        return err;
    struct level *top = l->depth > 0 ? &l->levels[l->depth - 1] : NULL;
    if (top && json_is_object(top->container) && !top->key)
        return take_key(l, top, e);
    json_t *value = NULL;
    err = event_value(l, e, &value);
    if (err) {
        json_decref(value);
        return err;
    }
    return place_value(l, e, value);
}

static ty_err take_event(struct loader *l, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (l->root)
            return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: a second document", line_of(e));
        return TY_OK;
    case YAML_ALIAS_EVENT:
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return take_value(l, e);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        l->depth--;
        return l->levels[l->depth].merge != NULL ? merge_apply(&l->levels[l->depth], e) : TY_OK;
    default:
        return TY_OK;
    }
}

static ty_err load(struct loader *l)
{
    bool ended = false;
    while (!ended) {
        yaml_event_t e;
        if (!yaml_parser_parse(&l->parser, &e))
            return syntax_fail(l);
        ended = e.type == YAML_STREAM_END_EVENT;
        ty_err err = take_event(l, &e);
        yaml_event_delete(&e);
        if (err)
            return err;
    }
    if (!l->root)
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line 1: there is no document");
    return TY_OK;
}

static ty_err parse(ty_str text, struct ty_buf *warnings, json_t **ret_value)
{
    struct loader l = {.text = text, .warnings = warnings};
    if (!yaml_parser_initialize(&l.parser))
        return ty_fail(TY_RESOURCE_EXHAUSTED, "YAML: out of memory");
    yaml_parser_set_encoding(&l.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&l.parser, (const unsigned char *)(text.ptr ? text.ptr : ""),
                                 text.len);
    l.anchors = json_object();
    l.aside = json_array();
    ty_assert(l.anchors && l.aside);
    ty_err err = load(&l);
    json_decref(l.anchors);
    json_decref(l.aside);
    for (size_t i = 0; i < l.depth; i++)
        free(l.levels[i].key);
    yaml_parser_delete(&l.parser);
    if (err) {
        json_decref(l.root);
        return err;
    }
    *ret_value = l.root;
    return TY_OK;
}

ty_err wire_yaml_parse(ty_str text, json_t **ret_value)
{
    return parse(text, NULL, ret_value);
}

ty_err wire_yaml11_parse(ty_str text, struct ty_buf *warnings, json_t **ret_value)
{
    if (ty_str_starts(text, TY_STR("\xef\xbb\xbf")))
        text = ty_str_drop(text, 3); /* libyaml takes a byte order mark for text */
    ty_err err = wire_yaml11_tabs(text);
    return err == TY_OK ? parse(text, warnings, ret_value) : err;
}

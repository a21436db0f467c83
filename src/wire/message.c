/* message.c -- requests against tables: what protobuf's JSON mapping accepts, in canonical form.
 *
 * One walk does both: it reports every problem with the full path of its field,
 * and builds the canonical value that is stored and returned. A path is a chain
 * of frames on the stack, turned into text only when there is something to
 * report, so a correct request costs no formatting. Strings and WIRE_ANY values
 * are shared with the input by reference. */
#include "wire/wire_int.h"

#include <math.h>

enum {
    FEW_ENUM_VALUES = 12,
    ENUM_LIST_BYTES = 1024,
    NAME_SHOWN_BYTES = 64,
    VALUE_SHOWN_BYTES = 40,
    VIOLATIONS_JOINED = 3
};

/* ---- violations ---- */

void wire_violations_init(struct wire_violations *v, struct ty_arena *a)
{
    *v = (struct wire_violations){.arena = a};
    v->tail = &v->first;
}

static void violation_add(struct wire_violations *v, ty_str field, const char *fmt, va_list args)
{
    char text[512];
    if (v->count++ >= WIRE_MAX_VIOLATIONS)
        return;
    int n = vsnprintf(text, sizeof text, fmt, args);
    ty_str description = {text, n < 0 ? 0 : (size_t)n};
    if (description.len >= sizeof text)
        description = wire_text_cut((ty_str){text, sizeof text - 1}, sizeof text - 2);
    struct wire_violation *w = ty_new(v->arena, struct wire_violation);
    w->field = ty_str_dup(v->arena, field);
    w->description = ty_str_dup(v->arena, description);
    *v->tail = w;
    v->tail = &w->next;
}

void wire_violation_add(struct wire_violations *v, const char *field, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    violation_add(v, ty_str_of(field), fmt, args);
    va_end(args);
}

ty_err wire_violations_fail(const struct wire_violations *v)
{
    if (v->count == 0)
        return TY_OK;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    size_t joined = 0;
    for (struct wire_violation *w = v->first; w && joined < VIOLATIONS_JOINED; w = w->next) {
        ty_buf_addf(&b, "%s" TY_STR_FMT "%s" TY_STR_FMT, joined++ ? "; " : "", TY_STR_ARG(w->field),
                    w->field.len ? ": " : "", TY_STR_ARG(w->description));
    }
    if (v->count > joined)
        ty_buf_addf(&b, "; and %zu more", v->count - joined);
    ty_err err = ty_fail(TY_INVALID_ARGUMENT, TY_STR_FMT, TY_STR_ARG(ty_buf_str(&b)));
    ty_buf_clear(&b);
    return err;
}

void wire_violations_json(const struct wire_violations *v, struct ty_buf *b)
{
    ty_buf_addz(b,
                "[{\"@type\":\"type.googleapis.com/google.rpc.BadRequest\",\"fieldViolations\":[");
    for (struct wire_violation *w = v->first; w; w = w->next) {
        ty_buf_addz(b, w == v->first ? "{\"field\":" : ",{\"field\":");
        wire_json_string(b, w->field);
        ty_buf_addz(b, ",\"description\":");
        wire_json_string(b, w->description);
        ty_buf_addc(b, '}');
    }
    ty_buf_addz(b, "]}]");
}

/* ---- paths ---- */

struct path {
    const struct path *parent; /* NULL: the root, whose name is the caller's prefix */
    ty_str name;               /* empty for an element of an array */
    size_t index;
};

static void path_write(struct ty_buf *b, const struct path *p)
{
    if (p->parent)
        path_write(b, p->parent);
    if (p->parent && p->name.len == 0) {
        ty_buf_addf(b, "[%zu]", p->index);
        return;
    }
    ty_str name = p->parent ? wire_text_cut(p->name, NAME_SHOWN_BYTES) : p->name;
    if (b->len > 0 && name.len > 0)
        ty_buf_addc(b, '.');
    ty_buf_adds(b, name);
    if (name.len < p->name.len)
        ty_buf_addz(b, "…");
}

static void problem(struct wire_violations *v, const struct path *p, const char *fmt, ...)
    TY_PRINTF(3, 4);
static void problem(struct wire_violations *v, const struct path *p, const char *fmt, ...)
{
    struct ty_buf b;
    va_list args;
    if (v->count >= WIRE_MAX_VIOLATIONS) {
        v->count++;
        return;
    }
    ty_buf_init(&b, 8192);
    path_write(&b, p);
    va_start(args, fmt);
    violation_add(v, ty_buf_str(&b), fmt, args);
    va_end(args);
    ty_buf_clear(&b);
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    default:
        return "a boolean";
    }
}

static ty_str text_of(const json_t *value)
{
    return (ty_str){json_string_value(value), json_string_length(value)};
}

/* A new reference; the count is the only thing about a value that we touch. */
static json_t *share(const json_t *value)
{
    return json_incref((json_t *)value);
}

/* ---- numbers ---- */

/* A whole number in any of its forms: 3, 3.0 or "3". */
static bool whole_number(const json_t *value, int64_t *ret_number)
{
    if (json_is_integer(value)) {
        *ret_number = json_integer_value(value);
        return true;
    }
    if (json_is_real(value)) {
        double d = json_real_value(value);
        if (!(d >= -0x1p63 && d < 0x1p63) || d != trunc(d))
            return false;
        *ret_number = (int64_t)d;
        return true;
    }
    ty_str s = json_is_string(value) ? text_of(value) : TY_STR("");
    return s.len > 0 && s.ptr[0] != '+' && ty_parse_i64(s, ret_number) == TY_OK;
}

static bool int_in_range(const struct wire_field *f, int64_t n, const struct path *p,
                         struct wire_violations *v)
{
    bool wide = f->type == WIRE_INT64, repeated = f->flags & WIRE_REPEATED;
    int64_t least = wide ? INT64_MIN : INT32_MIN, most = wide ? INT64_MAX : INT32_MAX;
    bool bounded = !repeated && f->most != 0;
    if (!repeated && f->least > least)
        least = f->least;
    if (bounded && f->most < most)
        most = f->most;
    if (n >= least && n <= most)
        return true;
    if (bounded)
        problem(v, p, "must be from %" PRId64 " to %" PRId64 ", not %" PRId64, least, most, n);
    else if (n < least)
        problem(v, p, "must be at least %" PRId64 ", not %" PRId64, least, n);
    else
        problem(v, p, "must be at most %" PRId64 ", not %" PRId64, most, n);
    return false;
}

static json_t *take_int(const struct wire_field *f, const json_t *value, const struct path *p,
                        struct wire_violations *v)
{
    int64_t n;
    char real[WIRE_REAL_BYTES];
    if (!whole_number(value, &n)) {
        if (json_is_string(value)) {
            ty_str s = wire_text_cut(text_of(value), VALUE_SHOWN_BYTES);
            problem(v, p, "must be a whole number, not '" TY_STR_FMT "'", TY_STR_ARG(s));
        } else if (json_is_real(value)) {
            problem(v, p, "must be a whole number, not %s",
                    wire_real_format(json_real_value(value), real));
        } else {
            problem(v, p, "must be a whole number, not %s", type_name(value));
        }
        return NULL;
    }
    if (!int_in_range(f, n, p, v))
        return NULL;
    if (f->type == WIRE_INT32)
        return json_integer(n);
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, n);
    return json_string(text);
}

/* A number, or a string that is all a number (but no NaN, Infinity or hex). */
static bool real_number(const json_t *value, double *ret_number)
{
    if (json_is_number(value)) {
        *ret_number = json_number_value(value);
        return true;
    }
    const char *s = json_string_value(value);
    if (!s || !*s || strspn(s, "0123456789+-.eE") != json_string_length(value))
        return false;
    char *end;
    double d = strtod(s, &end);
    if (*end || !isfinite(d))
        return false;
    *ret_number = d;
    return true;
}

static json_t *take_double(const struct wire_field *f, const json_t *value, const struct path *p,
                           struct wire_violations *v)
{
    double d;
    char real[WIRE_REAL_BYTES];
    if (!real_number(value, &d)) {
        problem(v, p, "must be a number, not %s", type_name(value));
        return NULL;
    }
    bool repeated = f->flags & WIRE_REPEATED;
    if (!repeated && f->least != INT64_MIN && d < (double)f->least) {
        problem(v, p, "must be at least %" PRId64 ", not %s", f->least, wire_real_format(d, real));
        return NULL;
    }
    if (!repeated && f->most != 0 && d > (double)f->most) {
        problem(v, p, "must be at most %" PRId64 ", not %s", f->most, wire_real_format(d, real));
        return NULL;
    }
    return json_is_number(value) ? share(value) : json_real(d);
}

/* ---- enums ---- */

/* nvidia-tesla-t4 is NVIDIA_TESLA_T4: as gcloud spells accelerators. */
static bool same_but_for_spelling(ty_str a, const char *b)
{
    size_t i = 0;
    for (; i < a.len && b[i]; i++) {
        char x = a.ptr[i] == '-' ? '_' : a.ptr[i];
        if (x >= 'a' && x <= 'z')
            x = (char)(x - 'a' + 'A');
        if (x != b[i])
            return false;
    }
    return i == a.len && !b[i];
}

/* The value that was probably meant, or NULL. */
static const char *enum_nearest(const struct wire_field *f, ty_str name)
{
    for (const struct wire_enum_value *e = f->values; e->name; e++)
        if (same_but_for_spelling(name, e->name))
            return e->name;
    for (size_t edits = 1; name.len > 3 && edits <= 3; edits++)
        for (const struct wire_enum_value *e = f->values; e->name; e++)
            if (wire_text_close(name, ty_str_of(e->name), edits))
                return e->name;
    return NULL;
}

static void enum_problem(const struct wire_field *f, const json_t *value, const struct path *p,
                         struct wire_violations *v)
{
    char list[ENUM_LIST_BYTES];
    size_t count = 0, n = 0;
    ty_str name = json_is_string(value) ? text_of(value) : TY_STR("");
    for (const struct wire_enum_value *e = f->values; e->name; e++, count++)
        if (n < sizeof list)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", e->name);
    const char *near = enum_nearest(f, name);
    char shown[VALUE_SHOWN_BYTES + 32];
    ty_str cut = wire_text_cut(name, VALUE_SHOWN_BYTES);
    if (json_is_string(value))
        snprintf(shown, sizeof shown, "'" TY_STR_FMT "'", TY_STR_ARG(cut));
    else
        snprintf(shown, sizeof shown, "%.17g", json_number_value(value));
    if (near && count > FEW_ENUM_VALUES)
        problem(v, p, "has no value %s; did you mean '%s'?", shown, near);
    else if (n < sizeof list)
        problem(v, p, "must be one of %s, not %s", list, shown);
    else
        problem(v, p, "has no value %s", shown);
}

static json_t *take_enum(const struct wire_field *f, const json_t *value, const struct path *p,
                         struct wire_violations *v)
{
    if (!json_is_string(value) && !json_is_number(value)) {
        problem(v, p, "must be the name of a value, not %s", type_name(value));
        return NULL;
    }
    int64_t number = 0;
    bool by_number = json_is_number(value) && whole_number(value, &number);
    for (const struct wire_enum_value *e = f->values; e->name; e++) {
        if (by_number ? e->number == number
                      : json_is_string(value) && ty_str_is(text_of(value), e->name))
            return json_string(e->name);
    }
    enum_problem(f, value, p, v);
    return NULL;
}

/* ---- strings and what is written as strings ---- */

static json_t *take_string(const struct wire_field *f, const json_t *value, const struct path *p,
                           struct wire_violations *v)
{
    if (!json_is_string(value)) {
        problem(v, p, "must be a string, not %s", type_name(value));
        return NULL;
    }
    ty_str s = text_of(value);
    int64_t ignored;
    if (f->type == WIRE_STRING && f->most > 0 && !(f->flags & WIRE_REPEATED) &&
        s.len > (uint64_t)f->most) {
        problem(v, p, "must be at most %" PRId64 " bytes, not %zu", f->most, s.len);
        return NULL;
    }
    if ((f->type == WIRE_DURATION && wire_duration_parse(s, &ignored)) ||
        (f->type == WIRE_TIMESTAMP && wire_time_parse(s, &ignored))) {
        problem(v, p, "%s", ty_err_message());
        return NULL;
    }
    return share(value);
}

static json_t *take_string_map(const struct wire_field *f, const json_t *value,
                               const struct path *p, struct wire_violations *v)
{
    const char *key;
    json_t *item;
    if (!json_is_object(value)) {
        problem(v, p, "must be an object of strings, not %s", type_name(value));
        return NULL;
    }
    size_t count = json_object_size(value);
    if (f->most > 0 && !(f->flags & WIRE_REPEATED) && count > (uint64_t)f->most) {
        problem(v, p, "must have at most %" PRId64 " entries, not %zu", f->most, count);
        return NULL;
    }
    json_t *out = json_object();
    json_object_foreach ((json_t *)value, key, item) {
        struct path at = {.parent = p, .name = *key ? ty_str_of(key) : TY_STR("''")};
        if (json_is_string(item))
            json_object_set(out, key, item);
        else
            problem(v, &at, "must be a string, not %s", type_name(item));
    }
    return out;
}

/* ---- messages ---- */

static json_t *normalise(const struct wire_message *m, const json_t *in, const struct path *p,
                         struct wire_violations *v);

/* One value of the field's type, not repeated: a new reference, or NULL after a problem. */
static json_t *take_one(const struct wire_field *f, const json_t *value, const struct path *p,
                        struct wire_violations *v)
{
    switch (f->type) {
    case WIRE_STRING:
    case WIRE_DURATION:
    case WIRE_TIMESTAMP:
        return take_string(f, value, p, v);
    case WIRE_BOOL:
        if (json_is_boolean(value))
            return share(value);
        problem(v, p, "must be true or false, not %s", type_name(value));
        return NULL;
    case WIRE_INT32:
    case WIRE_INT64:
        return take_int(f, value, p, v);
    case WIRE_DOUBLE:
        return take_double(f, value, p, v);
    case WIRE_ENUM:
        return take_enum(f, value, p, v);
    case WIRE_MESSAGE:
        return normalise(f->message, value, p, v);
    case WIRE_STRING_MAP:
        return take_string_map(f, value, p, v);
    case WIRE_ANY:
        return share(value);
    }
    return NULL;
}

static json_t *take_repeated(const struct wire_field *f, const json_t *value, const struct path *p,
                             struct wire_violations *v)
{
    size_t i;
    json_t *item;
    if (!json_is_array(value)) {
        problem(v, p, "must be an array, not %s", type_name(value));
        return NULL;
    }
    size_t count = json_array_size(value);
    if (f->most > 0 && count > (uint64_t)f->most) {
        problem(v, p, "must have at most %" PRId64 " entries, not %zu", f->most, count);
        return NULL;
    }
    json_t *out = json_array();
    json_array_foreach (value, i, item) {
        struct path at = {.parent = p, .index = i};
        json_t *taken = NULL;
        if (json_is_null(item) && f->type != WIRE_ANY)
            problem(v, &at, "must not be null");
        else
            taken = take_one(f, item, &at, v);
        if (taken)
            json_array_append_new(out, taken);
    }
    return out;
}

static const struct wire_field *find_field(const struct wire_message *m, ty_str key)
{
    for (const struct wire_field *f = m->fields; f->name; f++) {
        if (wire_name_eq(ty_str_of(f->name), key))
            return f;
    }
    return NULL;
}

static void unknown_field(const struct wire_message *m, ty_str key, const struct path *p,
                          struct wire_violations *v)
{
    struct path at = {.parent = p, .name = key.len ? key : TY_STR("''")};
    for (size_t edits = 1; edits <= 3 && edits < key.len; edits++) {
        for (const struct wire_field *f = m->fields; f->name; f++) {
            if (wire_text_close(key, ty_str_of(f->name), edits)) {
                problem(v, &at, "unknown field; did you mean '%s'?", f->name);
                return;
            }
        }
    }
    problem(v, &at, "unknown field");
}

/* The member that is this field, under either name; NULL if there is none or it is null. */
static const json_t *find_member(const json_t *in, const struct wire_field *f, const struct path *p,
                                 struct wire_violations *v)
{
    const json_t *found = NULL;
    const char *found_as = NULL, *key;
    json_t *item;
    json_object_foreach ((json_t *)in, key, item) {
        if (!wire_name_eq(ty_str_of(f->name), ty_str_of(key)))
            continue;
        if (found) {
            struct path at = {.parent = p, .name = ty_str_of(f->name)};
            problem(v, &at, "is given twice, as '%.64s' and '%.64s'", found_as, key);
            break;
        }
        found = item;
        found_as = key;
    }
    return json_is_null(found) ? NULL : found;
}

/* Nothing in it: as good as absent for a required field. A message is there even if it is {}. */
static bool is_empty(const struct wire_field *f, const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) == 0;
    if (json_is_array(value))
        return json_array_size(value) == 0;
    return f->type == WIRE_STRING_MAP && json_is_object(value) && json_object_size(value) == 0;
}

static void check_oneof(const struct wire_message *m, const json_t *out, const struct path *p,
                        struct wire_violations *v)
{
    const char *first = NULL;
    for (const char *const *name = m->oneof; name && *name; name++) {
        if (!json_object_get(out, *name))
            continue;
        struct path at = {.parent = p, .name = ty_str_of(*name)};
        if (first)
            problem(v, &at, "cannot be set together with '%s'", first);
        else
            first = *name;
    }
}

static json_t *normalise(const struct wire_message *m, const json_t *in, const struct path *p,
                         struct wire_violations *v)
{
    json_t *out = json_object();
    const char *key;
    json_t *item;
    if (!json_is_object(in)) {
        problem(v, p, "must be an object (%s), not %s", m->name, type_name(in));
        return out;
    }
    json_object_foreach ((json_t *)in, key, item) {
        if (v->count < WIRE_MAX_VIOLATIONS && !find_field(m, ty_str_of(key)))
            unknown_field(m, ty_str_of(key), p, v);
    }
    for (const struct wire_field *f = m->fields; f->name; f++) {
        struct path at = {.parent = p, .name = ty_str_of(f->name)};
        const json_t *value = find_member(in, f, p, v);
        if (f->flags & WIRE_OUTPUT)
            continue;
        if ((f->flags & WIRE_REQUIRED) && (!value || is_empty(f, value))) {
            problem(v, &at, "is required");
            continue;
        }
        if (!value)
            continue;
        json_t *taken =
            f->flags & WIRE_REPEATED ? take_repeated(f, value, &at, v) : take_one(f, value, &at, v);
        if (taken)
            json_object_set_new(out, f->name, taken);
    }
    check_oneof(m, out, p, v);
    return out;
}

json_t *wire_normalise(const struct wire_message *m, const json_t *in, const char *path,
                       struct wire_violations *v)
{
    struct path root = {.name = ty_str_of(path)};
    return normalise(m, in, &root, v);
}

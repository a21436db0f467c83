/* fields.c -- partial responses: of an answer, only what ?fields= names.
 *
 *   items(name,size),nextPageToken      items/metadata/goog-reserved-file-mtime      *
 *
 * Names are joined by '/', alternatives by ',' and grouped by '()'; '*' is any name. What a list
 * holds is selected in each of its elements; a name that is not there is left out. The selection is
 * a tree in the request's arena, with ceilings, and the answer's text, which is our own JSON, is
 * gone through once and copied: a page of a thousand objects never becomes a tree. */
#include "gcs/gcs_int.h"

enum { FIELDS_BYTES = 8 * 1024, FIELDS_DEPTH = 16, FIELDS_COUNT = 512 };

struct field {
    ty_str name;
    bool whole; /* all that is below it */
    struct field *children, *next;
};

/* ---- the selection ---- */

struct selection {
    struct ty_arena *arena;
    ty_str text;
    size_t at, count;
};

static ty_err bad(const struct selection *s)
{
    return ty_fail(TY_INVALID_ARGUMENT,
                   "fields: invalid field selection at character %zu: it must be names like "
                   "items(name,size),nextPageToken",
                   s->at + 1);
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_-.*", c) != NULL);
}

static char next_char(const struct selection *s)
{
    return s->at < s->text.len ? s->text.ptr[s->at] : '\0';
}

/* The field of that name in *list, made if it is not there. */
static struct field *field_get(struct selection *s, struct field **list, ty_str name)
{
    while (*list && !ty_str_eq((*list)->name, name))
        list = &(*list)->next;
    if (!*list) {
        *list = ty_new(s->arena, struct field);
        (*list)->name = name;
        s->count++;
    }
    return *list;
}

static ty_err list_parse(struct selection *s, struct field **list, int depth);

/* name, name/…, name(…) */
static ty_err item_parse(struct selection *s, struct field **list, int depth)
{
    size_t start = s->at;
    while (name_char(next_char(s)))
        s->at++;
    if (s->at == start || depth > FIELDS_DEPTH || s->count >= FIELDS_COUNT)
        return bad(s);
    struct field *f = field_get(s, list, (ty_str){s->text.ptr + start, s->at - start});
    char c = next_char(s);
    if (c == '/') {
        s->at++;
        return item_parse(s, &f->children, depth + 1);
    }
    if (c != '(') {
        f->whole = true;
        return TY_OK;
    }
    s->at++;
    ty_err err = list_parse(s, &f->children, depth + 1);
    if (err == TY_OK && next_char(s) != ')')
        err = bad(s);
    s->at++;
    return err;
}

static ty_err list_parse(struct selection *s, struct field **list, int depth)
{
    ty_err err = item_parse(s, list, depth);
    while (err == TY_OK && next_char(s) == ',') {
        s->at++;
        err = item_parse(s, list, depth);
    }
    return err;
}

ty_err fields_parse(struct ty_arena *a, ty_str text, struct field **ret_fields)
{
    struct selection s = {.arena = a, .text = text};
    struct field *fields = NULL;
    if (text.len > FIELDS_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT, "fields: is longer than %d bytes", FIELDS_BYTES);
    ty_err err = list_parse(&s, &fields, 0);
    if (err == TY_OK && s.at != text.len)
        err = bad(&s);
    if (err == TY_OK)
        *ret_fields = fields;
    return err;
}

static const struct field *field_find(const struct field *list, ty_str name)
{
    while (list && !ty_str_eq(list->name, name) && !ty_str_is(list->name, "*"))
        list = list->next;
    return list;
}

/* ---- the answer: JSON that we wrote, so it is well-formed ---- */

static void skip_space(ty_str *in)
{
    while (in->len > 0 && strchr(" \t\r\n", in->ptr[0]))
        *in = ty_str_drop(*in, 1);
}

/* `in` begins with a quote; its length up to and with the closing one. */
static size_t string_len(ty_str in)
{
    size_t i = 1;
    while (i < in.len && in.ptr[i] != '"')
        i += in.ptr[i] == '\\' ? 2 : 1;
    return i < in.len ? i + 1 : in.len;
}

static size_t value_len(ty_str in)
{
    size_t depth = 0, i = 0;
    while (i < in.len) {
        char c = in.ptr[i];
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            break;
        if (c == '"') {
            i += string_len(ty_str_drop(in, i));
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        i++;
    }
    return i;
}

static void value_select(struct ty_buf *out, ty_str in, const struct field *fields);

/* "name":value; the comma before it only when something was written. */
static void member_select(struct ty_buf *out, ty_str name, ty_str value, const struct field *fields,
                          bool *first)
{
    const struct field *f = field_find(fields, (ty_str){name.ptr + 1, name.len - 2});
    skip_space(&value);
    if (!f || (!f->whole && (value.len == 0 || !strchr("{[", value.ptr[0]))))
        return;
    ty_buf_addz(out, *first ? "" : ",");
    *first = false;
    ty_buf_adds(out, name);
    ty_buf_addc(out, ':');
    if (f->whole)
        ty_buf_adds(out, value);
    else
        value_select(out, value, f->children);
}

/* An object, or each element of a list. */
static void value_select(struct ty_buf *out, ty_str in, const struct field *fields)
{
    if (in.len == 0 || !strchr("{[", in.ptr[0])) {
        ty_buf_adds(out, in);
        return;
    }
    bool object = in.ptr[0] == '{', first = true;
    ty_buf_addc(out, in.ptr[0]);
    in = ty_str_drop(in, 1);
    for (skip_space(&in); in.len > 0 && !strchr("}]", in.ptr[0]); skip_space(&in)) {
        ty_str name = {in.ptr, object ? string_len(in) : 0};
        in = ty_str_drop(in, name.len);
        skip_space(&in);
        in = ty_str_drop(in, object && in.len > 0); /* the colon */
        ty_str value = {in.ptr, value_len(in)};
        if (object) {
            member_select(out, name, value, fields, &first);
        } else {
            ty_buf_addz(out, first ? "" : ",");
            first = false;
            value_select(out, value, fields);
        }
        in = ty_str_drop(in, value.len);
        if (in.len > 0 && in.ptr[0] == ',')
            in = ty_str_drop(in, 1);
    }
    ty_buf_addc(out, object ? '}' : ']');
}

void fields_select(struct ty_buf *out, ty_str json, const struct field *fields)
{
    skip_space(&json);
    value_select(out, json, fields);
}

ty_err fields_apply(const struct http_request *req, struct http_response *res)
{
    ty_str text = http_query(req, "fields");
    struct field *fields;
    struct ty_buf out;
    if (text.len == 0 || req->method != HTTP_GET) /* what was done is told in full */
        return TY_OK;
    ty_err err = fields_parse(req->arena, text, &fields);
    if (err != TY_OK)
        return err;
    ty_buf_init(&out, res->body.limit);
    fields_select(&out, ty_buf_str(&res->body), fields);
    ty_buf_clear(&res->body);
    res->body = out;
    return TY_OK;
}

/* wire.h -- bytes that cross the wire: JSON, YAML, protobuf, base64, checksums and hashes, URLs,
 * times, filters.
 *
 * Where to start: wire_json_parse for bytes, wire_normalise for a request whose
 * fields a table describes, wire_json_string to write a string into a buffer.
 * Who frees: a json_t (jansson) is reference counted, json_decref; all else is
 * from the caller's arena or in the caller's buffer.
 * Threads: everything here is pure; call from any thread on your own data.
 * Errors: TY_INVALID_ARGUMENT with the byte, line or field that is wrong.
 * One test: build/test_wire normalise/unknown_field. */
#ifndef TY_WIRE_H
#define TY_WIRE_H

#include "base/base.h"

#include <jansson.h>

/* ---- JSON ---- */

enum { WIRE_MAX_DEPTH = 64, WIRE_MAX_VALUES = 200000 };

/* Parse exactly one JSON value: UTF-8, no duplicate keys, no NUL characters, at
 * most WIRE_MAX_DEPTH levels and WIRE_MAX_VALUES values ("[]" costs two bytes to
 * send and a hundred to hold). Messages name the line and column. */
TY_NODISCARD ty_err wire_json_parse(ty_str text, json_t **ret_value);
/* The same for an object without its braces: "a":1,"b":2 -- as a job's row holds its body. */
TY_NODISCARD ty_err wire_json_parse_members(ty_str members, json_t **ret_object);
/* Append a JSON string, quoted and escaped. NUL, and bytes that are not UTF-8, become U+FFFD. */
void wire_json_string(struct ty_buf *b, ty_str s);
/* Append a value in compact form, keys in their order. */
void wire_json_dump(struct ty_buf *b, const json_t *value);
/* Append a value indented by two spaces, for people. */
void wire_json_dump_pretty(struct ty_buf *b, const json_t *value);
/* Append a value as YAML block style, as gcloud prints it (for `describe`): keys
 * sorted, a newline at the end. */
void wire_yaml_dump(struct ty_buf *b, const json_t *value);

/* Borrowed string of an object's member, or an empty string when absent or not a string. */
ty_str wire_json_get_str(const json_t *object, const char *key);

/* ---- YAML ---- */

/* One YAML document into JSON values. Plain scalars follow the JSON-like core
 * schema (null, true/false, integers, floats); quoted ones are strings. Refused:
 * no document or more than one, duplicate keys, keys that are not scalars, more
 * than WIRE_MAX_DEPTH levels or WIRE_MAX_VALUES values, tags of one's own, numbers
 * that are not finite or need more than 64 bits. An alias is a copy of what its anchor
 * names: its values count as if they had been written there, all copies together repeat
 * at most 16 MiB of text, and one inside its own anchor is refused; "<<" is a key like
 * any other. Messages name the line. */
TY_NODISCARD ty_err wire_yaml_parse(ty_str text, json_t **ret_value);
/* The same for files that gcloud reads, in YAML 1.1 as its reader has it: `yes` is true, 010 is 8,
 * "<<" merges, a byte order mark is skipped; of a key that is there twice the first counts, and a
 * line about it is added to `warnings`; dates and tabs between words are refused. */
TY_NODISCARD ty_err wire_yaml11_parse(ty_str text, struct ty_buf *warnings, json_t **ret_value);

/* ---- messages: what a JSON request may contain, as tables ---- */

enum wire_type {
    WIRE_STRING,
    WIRE_BOOL,
    WIRE_INT32,
    WIRE_INT64, /* number or decimal string in, string out */
    WIRE_DOUBLE,
    WIRE_ENUM,     /* name or number in, name out */
    WIRE_DURATION, /* "3.5s" */
    WIRE_TIMESTAMP,
    WIRE_MESSAGE,
    WIRE_STRING_MAP, /* object of strings (labels) */
    WIRE_ANY,        /* any JSON value, kept as it is */
};
enum {
    WIRE_REPEATED = 1, /* an array of the type */
    WIRE_REQUIRED = 2, /* absent, null or empty ("", [], a map {}) is a violation */
    WIRE_OUTPUT = 4,   /* set by the server: accepted and dropped on input */
};
struct wire_enum_value {
    const char *name;
    int number;
};
struct wire_field {
    const char *name; /* lowerCamelCase; snake_case is accepted as well */
    enum wire_type type;
    int flags;
    /* Numbers: the smallest value. 0, the default, refuses the negative; INT64_MIN allows all. */
    int64_t least;
    /* Numbers: the largest value; strings: bytes; arrays and maps: entries. 0 = the type's own.
     * Of a repeated field it bounds the entries; elements have their type's own bounds. */
    int64_t most;
    const struct wire_enum_value *values; /* WIRE_ENUM: ends with {NULL, 0} */
    const struct wire_message *message;   /* WIRE_MESSAGE */
};
struct wire_message {
    const char *name;
    const struct wire_field *fields; /* ends with {NULL} */
    /* At most one of these (NULL-ended names) may be set: a oneof. May be NULL. */
    const char *const *oneof;
};

/* What is wrong with a request, for google.rpc.BadRequest. Memory from the arena. */
struct wire_violation {
    ty_str field;       /* "jobSpec.workerPoolSpecs[0].replicaCount" */
    ty_str description; /* "must be a whole number, not a string" */
    struct wire_violation *next;
};
struct wire_violations {
    struct ty_arena *arena;
    struct wire_violation *first, **tail;
    size_t count; /* the first WIRE_MAX_VIOLATIONS are kept */
};
enum { WIRE_MAX_VIOLATIONS = 20 };
void wire_violations_init(struct wire_violations *v, struct ty_arena *a);
void wire_violation_add(struct wire_violations *v, const char *field, const char *fmt, ...)
    TY_PRINTF(3, 4);
/* TY_OK if there are none; else TY_INVALID_ARGUMENT whose message joins the first few
 * ("displayName: is required"). */
TY_NODISCARD ty_err wire_violations_fail(const struct wire_violations *v);
/* Append the google.rpc details array: [{"@type":"…BadRequest","fieldViolations":[…]}]. */
void wire_violations_json(const struct wire_violations *v, struct ty_buf *b);

/* Check `in` against the table and build its canonical form: camelCase keys in
 * the table's order, enum names, int64 as strings, nulls and output fields
 * dropped, empty pools kept as {}. Default values, durations and times are kept
 * as sent. Every problem is added to `v`, paths starting with `path` ("" at the
 * top). Returns a new reference even when there were problems; strings and
 * WIRE_ANY values in it are shared with `in`. */
json_t *wire_normalise(const struct wire_message *m, const json_t *in, const char *path,
                       struct wire_violations *v);

/* ---- text forms ---- */

/* Percent-decode into the arena. `plus` turns '+' into a space. Bad escapes and
 * %00 are TY_INVALID_ARGUMENT naming the byte. */
TY_NODISCARD ty_err wire_url_decode(struct ty_arena *a, ty_str s, bool plus, ty_str *ret_text);
void wire_url_encode(struct ty_buf *b, ty_str s); /* all but unreserved characters */

void wire_base64_encode(struct ty_buf *b, ty_str bytes);
/* Either alphabet, with or without padding. */
TY_NODISCARD ty_err wire_base64_decode(struct ty_arena *a, ty_str text, ty_str *ret_bytes);

enum { WIRE_TIME_BYTES = 32 };
/* RFC 3339 in UTC, fixed width: 9 fraction digits for logs, 6 for resources; 0 to 9 work.
 * Returns out. */
char *wire_time_format(int64_t ns, int digits, char out[WIRE_TIME_BYTES]);
/* RFC 3339 with any offset and 0 to 9 fraction digits. Times that int64 cannot hold (before
 * 1677 or after 2262) become the nearest it can, so they still work as bounds. */
TY_NODISCARD ty_err wire_time_parse(ty_str text, int64_t *ret_ns);
/* "3600s", "1.5s"; not negative. A part of a millisecond is rounded up. */
TY_NODISCARD ty_err wire_duration_parse(ty_str text, int64_t *ret_ms);

/* ---- little-endian numbers and checksums ---- */

static inline uint32_t wire_load_le32(const void *p)
{
    const unsigned char *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static inline uint64_t wire_load_le64(const void *p)
{
    return wire_load_le32(p) | (uint64_t)wire_load_le32((const char *)p + 4) << 32;
}
static inline void wire_store_le32(void *p, uint32_t v)
{
    unsigned char *b = p;
    for (int i = 0; i < 4; i++)
        b[i] = (unsigned char)(v >> (8 * i));
}
static inline void wire_store_le64(void *p, uint64_t v)
{
    wire_store_le32(p, (uint32_t)v);
    wire_store_le32((char *)p + 4, (uint32_t)(v >> 32));
}

/* CRC-32C (Castagnoli) of `n` more bytes after those that gave `crc`; 0 starts. By the processor's
 * own instruction where it has one. */
uint32_t wire_crc32c(uint32_t crc, const void *p, size_t n);
uint32_t wire_crc32c_plain(uint32_t crc, const void *bytes, size_t n); /* the reference */
/* As TFRecord and bundle files store it: the crc of bytes that hold crcs is a weak check. */
static inline uint32_t wire_crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* ---- gs:// names ---- */

/* Split gs://BUCKET/NAME; the name may be empty. False: it is none, or no bucket can be called so.
 */
bool wire_gs_parse(ty_str uri, ty_str *ret_bucket, ty_str *ret_name);
/* The file of the object (without a name: the bucket's folder), data/buckets/BUCKET/NAME. Whether
 * it is there is not asked. NULL: no gs:// URI, or a name that has no file of its own. */
char *wire_gs_path(struct ty_arena *a, const char *data_dir, ty_str uri);

/* ---- protobuf: the wire format, without schemas ----
 *
 * Writing appends fields to a ty_buf in the order of the calls; a field with its default value is
 * written like any other, so leaving it out is the caller's choice. Reading walks one message's
 * fields; a nested message is its field's bytes, read with a cursor of its own. Groups, which no
 * format of ours has, are refused. Nothing is ever read past the end. */

enum wire_pb_type {
    WIRE_PB_VARINT = 0,
    WIRE_PB_FIXED64 = 1,
    WIRE_PB_BYTES = 2,
    WIRE_PB_FIXED32 = 5
};

void wire_pb_put_varint(struct ty_buf *b, uint64_t value); /* alone, without a field's key */
void wire_pb_varint(struct ty_buf *b, uint32_t field, uint64_t value);
void wire_pb_int(struct ty_buf *b, uint32_t field, int64_t value); /* int32, int64, enum, bool */
void wire_pb_fixed32(struct ty_buf *b, uint32_t field, uint32_t value);
void wire_pb_fixed64(struct ty_buf *b, uint32_t field, uint64_t value);
void wire_pb_float(struct ty_buf *b, uint32_t field, float value);
void wire_pb_double(struct ty_buf *b, uint32_t field, double value);
void wire_pb_bytes(struct ty_buf *b, uint32_t field, ty_str bytes);
/* A nested message: what is appended between begin and end is its content. */
TY_NODISCARD size_t wire_pb_begin(struct ty_buf *b, uint32_t field);
void wire_pb_end(struct ty_buf *b, size_t mark);

struct wire_pb {
    const char *at, *end; /* what is left of the message; borrowed */
};
struct wire_pb_field {
    uint32_t number;
    enum wire_pb_type type;
    uint64_t value; /* varint, fixed32, fixed64; of bytes: their length */
    ty_str bytes;   /* WIRE_PB_BYTES: a view into the message */
};
static inline struct wire_pb wire_pb_of(ty_str message)
{
    return (struct wire_pb){message.ptr, message.ptr + message.len};
}
/* The next field. TY_OUT_OF_RANGE at the end, without a message; TY_DATA_LOSS if the bytes are no
 * protobuf message. */
TY_NODISCARD static inline ty_err wire_pb_next(struct wire_pb *m, struct wire_pb_field *ret_field);
TY_NODISCARD ty_err wire_pb_next_any(struct wire_pb *m, struct wire_pb_field *ret_field);
/* A varint without a key (packed lists). False if it is cut short or longer than 64 bits. */
static inline bool wire_pb_take_varint(struct wire_pb *m, uint64_t *ret_value)
{
    const unsigned char *p = (const unsigned char *)m->at, *end = (const unsigned char *)m->end;
    if (p < end && *p < 0x80) {
        *ret_value = *p;
        m->at++;
        return true;
    }
    uint64_t value = 0;
    for (unsigned shift = 0; p < end && shift < 64; shift += 7) {
        uint64_t bits = *p & 0x7f;
        if (shift == 63 && *p > 1)
            return false;
        value |= bits << shift;
        if (*p++ < 0x80) {
            m->at = (const char *)p;
            *ret_value = value;
            return true;
        }
    }
    return false;
}
/* Short names and messages, most of what there is, without a call; wire_pb_next_any has the rest.
 */
static inline ty_err wire_pb_next(struct wire_pb *m, struct wire_pb_field *ret_field)
{
    const unsigned char *p = (const unsigned char *)m->at;
    size_t left = (size_t)(m->end - m->at);
    if (left < 2 || (p[0] & 0x87) != WIRE_PB_BYTES || p[0] < 8 || p[1] >= 0x80 || p[1] > left - 2)
        return wire_pb_next_any(m, ret_field);
    *ret_field = (struct wire_pb_field){p[0] >> 3, WIRE_PB_BYTES, p[1], {m->at + 2, p[1]}};
    m->at += 2 + p[1];
    return TY_OK;
}
static inline float wire_float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline double wire_double_of(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* ---- SHA-256 ---- */

enum { WIRE_SHA256_HEX_BYTES = 65 }; /* 64 hexadecimal digits and a NUL */
struct wire_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};
void wire_sha256_init(struct wire_sha256 *h);
void wire_sha256_add(struct wire_sha256 *h, const void *ptr, size_t len);
/* Add a string so that no two lists of strings give the same bytes. */
void wire_sha256_adds(struct wire_sha256 *h, ty_str s);
void wire_sha256_end(struct wire_sha256 *h, char out[WIRE_SHA256_HEX_BYTES]);
/* The HMAC of `text`, as hexadecimal digits. */
void wire_hmac_sha256(ty_str key, ty_str text, char out[WIRE_SHA256_HEX_BYTES]);
/* Are they equal? The time it takes says nothing about where they differ. */
bool wire_same_bytes(ty_str a, ty_str b);

/* ---- filters: the grammar of list calls and of Cloud Logging (AIP-160) ----
 *
 *   expr := or (["AND"] or)*;  or := not ("OR" not)*;  not := ["NOT" | "-"] term
 *   term := "(" expr ")" | member [op value | op "(" values ")"];  op is one of  = != < <= > >= :
 * NOT binds tightest, then OR, then AND: `a b OR c` is a AND (b OR c). Keywords are in capitals.
 * Members are dotted names with quoted parts allowed (labels."a.b"); values are quoted
 * strings or bare words (times and paths need no quotes); `field=("a" OR "b")` compares with
 * each; a bare word or quoted string alone is a search in the text. "--" starts a comment.
 * No functions, no regular expressions: refused by name. An empty filter matches everything. */
struct wire_filter; /* in the arena it was parsed into */

/* What the filter asks a row by. `name` is as written but without quotes (labels."a.b" comes as
 * labels.a.b); compare it with wire_name_eq. For a bare word, name is empty. Set *ret_value and
 * return true if the row has that member (an unset one: false, and then every comparison, != too,
 * is false). A member that no row could have: set *ret_unknown. `labels:key` asks for "labels",
 * then for "labels.key". */
struct wire_filter_row {
    bool (*get)(const struct wire_filter_row *row, ty_str name, ty_str *ret_value,
                bool *ret_unknown);
    /* Compare for = != < <= > >= (may be NULL: bytes). <0, 0, >0. Called with the values of any
     * name: handle yours (times, severities), give the others to ty_str_cmp. */
    int (*compare)(const struct wire_filter_row *row, ty_str name, ty_str have, ty_str want);
    void *data;
    /* For wire_filter_check (may be NULL): can this member be compared with `value` (`order`: by
     * < <= > or >=)? TY_INVALID_ARGUMENT says why not. Not called for ':'. */
    ty_err (*check)(const struct wire_filter_row *row, ty_str name, bool order, ty_str value);
};
/* TY_INVALID_ARGUMENT names the byte. At most 64 KiB, 64 levels, 1000 terms, 1 KiB a word. */
TY_NODISCARD ty_err wire_filter_parse(struct ty_arena *a, ty_str text,
                                      struct wire_filter **ret_filter);
/* Names that no row has, and values that row->check refuses, are TY_INVALID_ARGUMENT: check once,
 * with a row that answers for all names. */
TY_NODISCARD ty_err wire_filter_check(const struct wire_filter *f,
                                      const struct wire_filter_row *row);
/* "=" is exact unless the value has '*' (wildcard for the whole value). ":" ignores ASCII case and
 * is contains, or the wildcard if the value has '*'; ":*" is present. */
bool wire_filter_matches(const struct wire_filter *f, const struct wire_filter_row *row);
/* A lower bound (>=, > or =) that every match must satisfy on `name`: the largest of those ANDed at
 * the top level, an OR of bounds counting as its smallest; false if there is none. For seeking
 * instead of scanning; only for members whose compare orders times as times. */
bool wire_filter_lower_bound(const struct wire_filter *f, ty_str name, ty_str *ret_value);
/* The value every match must have in `name` ("=" ANDed at the top level); false if none. */
bool wire_filter_equal(const struct wire_filter *f, ty_str name, ty_str *ret_value);

/* fooBar equals foo_bar. */
bool wire_name_eq(ty_str a, ty_str b);

#endif

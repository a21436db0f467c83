/* gcs_int.h -- what gcs's own files share. */
#ifndef TY_GCS_INT_H
#define TY_GCS_INT_H

#include "gcs/gcs.h"
#include "wire/wire.h"

enum {
    GCS_BOUNDARY_BYTES = 200, /* RFC 2046 has 70; Python's email package stays below */
    GCS_PART_HEADER_BYTES = 16 * 1024,
    GCS_METADATA_BYTES = 1024 * 1024, /* an object's JSON in an upload */
    GCS_BATCH_CALLS = 100,            /* as there */
    GCS_SMALL_BYTES = 64 * 1024,      /* a smaller download is read at once */
};

/* ---- handlers (routes.def) ---- */

#define HANDLER(method, path, handler)                                                             \
    ty_err handler(struct http_request *req, struct http_response *res, void *ctx);
#define ROUTE  HANDLER
#define UPLOAD HANDLER
#define LAST   HANDLER
#include "gcs/routes.def"
#undef ROUTE
#undef UPLOAD
#undef LAST
#undef HANDLER
/* A piece of an upload's body. */
ty_err upload_body(struct http_request *req, struct http_response *res, void *ctx);

/* ---- requests (request.c) ---- */

/* Make `err` and this thread's message the answer; returns TY_OK, so that a handler ends with it.
 * TY_OK stays what it is. */
ty_err answer_with(struct http_request *req, struct http_response *res, ty_err err);
/* if[Source]GenerationMatch and its three sisters; source: "" or "Source". */
TY_NODISCARD ty_err conditions_parse(const struct http_request *req, const char *source,
                                     struct object_conditions *ret_conditions);
/* Captures 0 and 1, with the query's generation. */
TY_NODISCARD ty_err ref_parse(const struct http_request *req, struct object_ref *ret_ref);
bool query_bool(const struct http_request *req, const char *name);
/* The body as a JSON object; *ret_object is NULL when it is empty. */
TY_NODISCARD ty_err body_parse(ty_str body, json_t **ret_object);
/* gcs.may_change. To be asked before an object is written, changed or deleted. */
TY_NODISCARD ty_err change_check(const struct gcs *g, const struct http_request *req, ty_str bucket,
                                 ty_str name);
/* Customer-supplied keys would have to encrypt what lies in the user's own folder: refused. */
TY_NODISCARD ty_err encryption_refuse(const struct http_request *req);

/* ---- JSON (json.c) ---- */

/* "http://HOST", where links lead. */
const char *link_base(struct http_request *req);
void object_json(struct ty_buf *b, const char *base, const struct object *x);
void bucket_json(struct ty_buf *b, const char *base, const struct bucket *x);
void object_etag(struct ty_buf *b, const struct object *object);
void md5_text(struct ty_buf *b, const unsigned char md5[16]);
void crc32c_text(struct ty_buf *b, uint32_t crc32c);
/* One member of an object being written: a comma unless it is the first. */
void member_str(struct ty_buf *b, const char *name, ty_str value);
void member_i64(struct ty_buf *b, const char *name, int64_t value); /* as a string */

/* ---- what a client may set (settings.c) ---- */

/* Hashes that a client declares; `given` is a set. */
enum { DECLARED_MD5 = 1, DECLARED_CRC32C = 2 };
struct declared {
    unsigned given;
    unsigned char md5[16];
    uint32_t crc32c;
};
/* Lay an object's JSON over *settings: null takes away, metadata is merged key by key. Strings are
 * copied into `a`. Fields that would need a promise we do not keep (holds, retention, keys) are
 * TY_UNIMPLEMENTED. */
TY_NODISCARD ty_err settings_apply(struct ty_arena *a, const json_t *object,
                                   struct object_settings *settings);
bool settings_given(const json_t *object); /* does it set anything? */
TY_NODISCARD ty_err declared_from_json(struct ty_arena *a, const json_t *object,
                                       struct declared *declared);
/* X-Goog-Hash and Content-MD5. */
TY_NODISCARD ty_err declared_from_headers(const struct http_request *req,
                                          struct declared *declared);
TY_NODISCARD ty_err bucket_apply(struct ty_arena *a, const json_t *in, struct bucket *bucket);

/* ---- partial responses (fields.c): bytes a client chose ---- */

struct field; /* in the arena */
/* TY_INVALID_ARGUMENT naming the place. */
TY_NODISCARD ty_err fields_parse(struct ty_arena *a, ty_str text, struct field **ret_fields);
/* Copy what they select of well-formed JSON. */
void fields_select(struct ty_buf *out, ty_str json, const struct field *fields);
/* Cut the answer to a GET down to the query's `fields`; all of it without. */
TY_NODISCARD ty_err fields_apply(const struct http_request *req, struct http_response *res);

/* ---- ranges (range.c): bytes a client chose ---- */

enum range_kind { RANGE_WHOLE, RANGE_PART, RANGE_BEYOND };
/* A Range header against a size. What is no single range is RANGE_WHOLE, as RFC 9110 has it. */
enum range_kind range_parse(ty_str header, int64_t size, int64_t *ret_first, int64_t *ret_last);

struct content_range {
    int64_t first, last; /* -1: "*", a question for how much is there */
    int64_t total;       /* -1: "*" */
};
TY_NODISCARD ty_err content_range_parse(ty_str header, struct content_range *ret_range);

/* ---- multipart bodies, as they come (multipart.c) ---- */

/* What is told about a body; an error ends it. */
struct multipart_events {
    /* A part begins; `headers` are its lines, valid for the call. */
    ty_err (*part)(void *arg, size_t index, ty_str headers);
    ty_err (*data)(void *arg, size_t index, ty_str bytes);
};
enum multipart_state {
    MULTIPART_PREAMBLE,
    MULTIPART_HEADERS,
    MULTIPART_DATA,
    MULTIPART_AFTER, /* right behind a delimiter */
    MULTIPART_DONE,
};
struct multipart {
    const struct multipart_events *events;
    void *arg;
    enum multipart_state state;
    char delimiter[GCS_BOUNDARY_BYTES + 8]; /* "\r\n--boundary", or "\n--boundary" */
    size_t delimiter_len;                   /* 0 until the first line has shown how lines end */
    char boundary[GCS_BOUNDARY_BYTES + 4];  /* "--boundary" */
    size_t boundary_len;
    size_t parts;        /* begun so far */
    struct ty_buf lines; /* headers, or the line being read */
    size_t line_start;   /* of the current line in `lines` */
    char carry[GCS_BOUNDARY_BYTES + 8];
    size_t carry_len; /* bytes that may be the start of a delimiter */
    size_t unsaid;    /* of those, how many are not data: the line end before it */
};
/* `content_type` is the request's, of either multipart kind. TY_INVALID_ARGUMENT without a
 * boundary. */
TY_NODISCARD ty_err multipart_init(struct multipart *m, ty_str content_type,
                                   const struct multipart_events *events, void *arg);
void multipart_clear(struct multipart *m);
TY_NODISCARD ty_err multipart_feed(struct multipart *m, ty_str bytes);
/* TY_INVALID_ARGUMENT unless the closing delimiter has come. */
TY_NODISCARD ty_err multipart_end(const struct multipart *m);
/* The value of a header in a part's lines, trimmed; empty when absent. */
ty_str part_header(ty_str headers, const char *name);

/* ---- batches (batch.c) ---- */

struct batch_call {
    enum http_method method;
    ty_str target; /* "/storage/v1/…" */
    ty_str body;
    ty_str id; /* Content-ID, or empty */
};
/* Split a multipart/mixed body of application/http parts. Views into the arena. */
TY_NODISCARD ty_err batch_parse(struct ty_arena *a, ty_str content_type, ty_str body,
                                struct batch_call **ret_calls, size_t *ret_count);

/* ---- downloads (download.c) ---- */

/* Answer with an object's bytes. */
TY_NODISCARD ty_err download(struct http_request *req, struct http_response *res, struct gcs *g,
                             struct object_ref ref, const struct object_conditions *conditions);
/* Answer with an object's bytes on the event loop, where that needs no wait (an http_now). */
bool download_now(struct http_request *req, struct http_response *res, void *ctx);

#endif

/* reply.c -- the parser of our client's replies: HTTP/1.x status, headers, body.
 *
 * Fed with whatever has arrived, it takes whole lines and pieces of the body
 * and leaves the rest, so it keeps no copy of half a line. Framing: no body for
 * HEAD, 1xx, 204, 304; else chunked; else Content-Length; else until the end. */
#include "http/http_int.h"

#include <strings.h>

enum { HEAD_LIMIT_BYTES = 64 * 1024 };

void reply_parser_init(struct reply_parser *p, bool head)
{
    *p = (struct reply_parser){.head = head, .keep_alive = true};
    ty_buf_init(&p->body, HTTP_RESPONSE_BYTES);
}

void reply_parser_clear(struct reply_parser *p)
{
    ty_buf_clear(&p->body);
}

static ty_err bad_reply(const char *what)
{
    return ty_fail(TY_DATA_LOSS, "the server's reply is not HTTP: %s", what);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "HTTP/1.1 200 OK" */
static ty_err status_line(struct reply_parser *p, ty_str line)
{
    if (line.len < 12 || memcmp(line.ptr, "HTTP/1.", 7) != 0 || !is_digit(line.ptr[7]) ||
        line.ptr[8] != ' ' || !is_digit(line.ptr[9]) || !is_digit(line.ptr[10]) ||
        !is_digit(line.ptr[11]) || (line.len > 12 && line.ptr[12] != ' '))
        return bad_reply("bad status line");
    p->keep_alive = line.ptr[7] != '0';
    p->status = (line.ptr[9] - '0') * 100 + (line.ptr[10] - '0') * 10 + (line.ptr[11] - '0');
    if (p->status < 100)
        return bad_reply("bad status");
    p->chunked = p->has_length = false;
    p->left = 0;
    p->state = REPLY_HEADERS;
    return TY_OK;
}

static bool name_is(ty_str name, const char *want)
{
    return name.len == strlen(want) && strncasecmp(name.ptr, want, name.len) == 0;
}

/* Does the body go elsewhere, in pieces? */
static bool is_sunk(const struct reply_parser *p)
{
    return p->sink != NULL && (p->status == 200 || p->status == 206);
}

static ty_err length_header(struct reply_parser *p, ty_str value)
{
    int64_t n;
    if (value.len == 0 || !is_digit(value.ptr[0]) || ty_parse_i64(value, &n) != TY_OK || n < 0)
        return bad_reply("bad Content-Length");
    if (n > HTTP_RESPONSE_BYTES && !p->head && !is_sunk(p))
        return ty_fail(TY_RESOURCE_EXHAUSTED,
                       "the server's reply has %" PRId64 " bytes; at most %d are read", n,
                       HTTP_RESPONSE_BYTES);
    if (p->has_length && p->left != (size_t)n)
        return bad_reply("two Content-Lengths");
    p->has_length = true;
    p->left = (size_t)n;
    return TY_OK;
}

static ty_err header_line(struct reply_parser *p, ty_str line)
{
    ty_str name, value = line;
    if (!ty_str_split(&value, ':', &name) || name.len == 0)
        return bad_reply("a header without a name");
    value = ty_str_trim(value);
    if (p->header != NULL)
        p->header(p->header_arg, name, value);
    if (name_is(name, "Content-Length"))
        return length_header(p, value);
    if (name_is(name, "Transfer-Encoding")) {
        if (!name_is(value, "chunked"))
            return bad_reply("unknown Transfer-Encoding");
        p->chunked = true;
    } else if (name_is(name, "Connection") && name_is(value, "close")) {
        p->keep_alive = false;
    }
    return TY_OK;
}

/* The empty line: what follows? */
static void headers_end(struct reply_parser *p)
{
    if (p->status < 200) {
        p->state = REPLY_STATUS; /* 100 Continue: the real one comes next */
    } else if (p->head || p->status == 204 || p->status == 304) {
        p->state = REPLY_DONE;
    } else if (p->chunked) {
        p->state = REPLY_CHUNK_SIZE;
    } else if (p->has_length) {
        p->state = p->left == 0 ? REPLY_DONE : REPLY_LENGTH;
    } else {
        p->state = REPLY_UNTIL_EOF;
        p->keep_alive = false;
    }
}

/* "1a3;extension" */
static ty_err chunk_line(struct reply_parser *p, ty_str line)
{
    ty_str digits, rest = line;
    size_t n = 0;
    ty_str_split(&rest, ';', &digits);
    digits = ty_str_trim(digits);
    if (digits.len == 0 || digits.len > 8)
        return bad_reply("bad chunk size");
    for (size_t i = 0; i < digits.len; i++) {
        char c = digits.ptr[i];
        char lower = (char)(c | 0x20);
        if (is_digit(c))
            n = n * 16 + (size_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            n = n * 16 + (size_t)(lower - 'a') + 10;
        else
            return bad_reply("bad chunk size");
    }
    if (!is_sunk(p) && n > HTTP_RESPONSE_BYTES - p->body.len)
        return ty_fail(TY_RESOURCE_EXHAUSTED, "the server's reply has more than %d bytes",
                       HTTP_RESPONSE_BYTES);
    p->left = n;
    p->state = n == 0 ? REPLY_TRAILERS : REPLY_CHUNK_DATA;
    return TY_OK;
}

static ty_err take_line(struct reply_parser *p, ty_str line)
{
    switch (p->state) {
    case REPLY_STATUS:
        return status_line(p, line);
    case REPLY_HEADERS:
        if (line.len != 0)
            return header_line(p, line);
        headers_end(p);
        return TY_OK;
    case REPLY_CHUNK_SIZE:
        return chunk_line(p, line);
    case REPLY_CHUNK_END:
        if (line.len != 0)
            return bad_reply("no line end after a chunk");
        p->state = REPLY_CHUNK_SIZE;
        return TY_OK;
    case REPLY_TRAILERS:
        if (line.len == 0)
            p->state = REPLY_DONE;
        return TY_OK;
    default:
        ty_assert(!"a state that has no lines");
        return TY_INTERNAL;
    }
}

/* Body bytes of a known or open length; *ret_used of them were taken. */
static ty_err take_body(struct reply_parser *p, ty_str bytes, size_t *ret_used)
{
    size_t n = bytes.len;
    if (p->state != REPLY_UNTIL_EOF) {
        n = n < p->left ? n : p->left;
        p->left -= n;
        if (p->left == 0)
            p->state = p->state == REPLY_LENGTH ? REPLY_DONE : REPLY_CHUNK_END;
    }
    *ret_used = n;
    if (is_sunk(p))
        return p->sink(p->sink_arg, (ty_str){bytes.ptr, n});
    ty_buf_add(&p->body, bytes.ptr, n);
    return ty_buf_check(&p->body, "the server's reply");
}

ty_err reply_parser_feed(struct reply_parser *p, ty_str bytes, size_t *ret_used)
{
    size_t used = 0;
    ty_err err = TY_OK;
    while (err == TY_OK && p->state != REPLY_DONE && used < bytes.len) {
        ty_str rest = ty_str_drop(bytes, used);
        if (p->state == REPLY_LENGTH || p->state == REPLY_CHUNK_DATA ||
            p->state == REPLY_UNTIL_EOF) {
            size_t taken = 0;
            err = take_body(p, rest, &taken);
            used += taken;
            continue;
        }
        const char *end = memchr(rest.ptr, '\n', rest.len);
        size_t n = end ? (size_t)(end - rest.ptr) + 1 : rest.len;
        /* Chunk headers are paid for by the chunks; all other lines share one ceiling. */
        bool counted =
            p->state == REPLY_STATUS || p->state == REPLY_HEADERS || p->state == REPLY_TRAILERS;
        if ((counted ? p->head_bytes : 0) + n > HEAD_LIMIT_BYTES)
            return ty_fail(TY_RESOURCE_EXHAUSTED,
                           "the headers of the server's reply are longer than %d bytes",
                           HEAD_LIMIT_BYTES);
        if (!end)
            break;
        p->head_bytes += counted ? n : 0;
        size_t len = n - 1 - (n > 1 && end[-1] == '\r');
        err = take_line(p, (ty_str){rest.ptr, len});
        used += n;
    }
    *ret_used = used;
    return err;
}

ty_err reply_parser_eof(struct reply_parser *p)
{
    if (p->state == REPLY_UNTIL_EOF)
        p->state = REPLY_DONE;
    if (p->state == REPLY_DONE)
        return TY_OK;
    return ty_fail(TY_UNAVAILABLE, "the server closed the connection in the middle of its reply");
}

/* fuzz_multipart.c -- multipart bodies as they come. The first byte cuts the body into pieces; what
 * is heard must not depend on the cut. */
#include "gcs/gcs_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ty_err hear_part(void *arg, size_t index, ty_str headers)
{
    struct ty_buf *heard = arg;
    ty_buf_addf(heard, "[%zu:%zu:", index, part_header(headers, "Content-Type").len);
    return TY_OK;
}

static ty_err hear_data(void *arg, size_t index, ty_str bytes)
{
    (void)index;
    ty_assert(bytes.len > 0);
    ty_buf_adds(arg, bytes);
    return TY_OK;
}

static ty_err hear(ty_str body, size_t step, struct ty_buf *heard)
{
    static const struct multipart_events events = {hear_part, hear_data};
    struct multipart m;
    ty_buf_init(heard, 1 << 24);
    ty_err err = multipart_init(&m, TY_STR("multipart/related; boundary='ab'"), &events, heard);
    ty_assert(err == TY_OK);
    while (body.len > 0 && err == TY_OK) {
        ty_str piece = {body.ptr, body.len < step ? body.len : step};
        err = multipart_feed(&m, piece);
        body = ty_str_drop(body, piece.len);
    }
    if (err == TY_OK)
        err = multipart_end(&m);
    multipart_clear(&m);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    ty_str body = {(const char *)data + 1, size - 1};
    struct ty_buf whole, parts;
    ty_err a = hear(body, body.len + 1, &whole), b = hear(body, (size_t)data[0] % 32 + 1, &parts);
    ty_assert(a == b);
    if (a == TY_OK)
        ty_assert(ty_str_eq(ty_buf_str(&whole), ty_buf_str(&parts)));
    ty_buf_clear(&whole);
    ty_buf_clear(&parts);

    /* The Content-Type is the client's as well. */
    struct multipart m;
    struct ty_buf heard;
    static const struct multipart_events events = {hear_part, hear_data};
    ty_buf_init(&heard, 1 << 16);
    if (multipart_init(&m, body, &events, &heard) == TY_OK) {
        if (multipart_feed(&m, body) == TY_OK)
            (void)!multipart_end(&m);
        multipart_clear(&m);
    }
    ty_buf_clear(&heard);
    return 0;
}

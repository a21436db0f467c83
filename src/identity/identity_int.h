/* identity_int.h -- what the files of identity share. */
#ifndef TY_IDENTITY_INT_H
#define TY_IDENTITY_INT_H

#include "identity/identity.h"

#define ROUTE(method, path, handler)                                                               \
    ty_err handler(struct http_request *req, struct http_response *res, void *ctx);
#include "identity/routes.def"
#undef ROUTE

enum { IDENTITY_TOKEN_SECONDS = 3600 };

/* The account every client here has. */
const char *identity_email(const struct identity *i, struct ty_arena *a);
/* A JWT for `audience`: well formed, with the claims clients read, and a signature of no worth. */
const char *identity_id_token(const struct identity *i, struct ty_arena *a, ty_str audience);
/* {"access_token":…,"expires_in":3600,"token_type":"Bearer"}. A replica gets its own token back, by
 * which its next requests are known as well. */
void identity_access_token_json(const struct http_request *req, struct ty_buf *b);

/* The id for what a client calls a project: a number of ours becomes its id. */
ty_str identity_project_id(const struct identity *i, ty_str id_or_number);

#endif

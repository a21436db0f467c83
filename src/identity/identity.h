/* identity.h -- the small Google services every client asks before its real call: OAuth /token, the
 * metadata server /computeMetadata, the resource manager's GET /v1/projects/X, locations.
 *
 * Who frees: requests own everything. Threads: any worker. Whoever may talk to us is already known
 * (http.h), so a token proves nothing here and is made only because clients want one; a replica
 * that shows its own (http_tokens) gets that one. One test: build/test_identity token/jwt_bearer.
 */
#ifndef TY_IDENTITY_H
#define TY_IDENTITY_H

#include "base/base.h"
#include "http/http.h"

struct identity {
    const char *project, *region; /* defaults */
};
struct http_routes identity_routes(struct identity *i);

/* 12 digits that stand for a project id where Google gives a number; always the same for an id. */
int64_t identity_project_number(ty_str project_id);

#endif

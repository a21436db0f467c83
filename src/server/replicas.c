/* replicas.c -- which requests are a replica's: tokens that we made, for attempts that have not
 * ended (auth.h has the tokens, http.h what they are good for). */
#include "auth/auth.h"
#include "server/server_int.h"

static bool token_made(void *ctx, ty_str token)
{
    const struct server *s = ctx;
    struct http_replica ignored;
    return auth_replica_read(&s->secret, token, &ignored);
}

static ty_err token_live(void *ctx, struct ty_arena *a, ty_str token,
                         struct http_replica *ret_replica)
{
    const struct server *s = ctx;
    struct http_replica r;
    if (!auth_replica_read(&s->secret, token, &r))
        return ty_fail(TY_PERMISSION_DENIED, "this is no token of ours");
    ty_err err = store_attempt_live(s->store, a, r.job, r.attempt, &r.project);
    if (err == TY_NOT_FOUND)
        return ty_wrap(TY_PERMISSION_DENIED, "this token is over");
    if (err == TY_OK)
        *ret_replica = r;
    return err;
}

struct http_tokens replica_tokens(struct server *s)
{
    return (struct http_tokens){.made = token_made, .live = token_live, .ctx = s};
}

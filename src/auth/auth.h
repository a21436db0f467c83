/* auth.h -- the local credentials Google's clients use here, and the environment that points them
 * at this server.
 *
 * The server makes, under data/client/ (0700):
 *   key.json              a service-account key of its own; token_uri leads here
 *   gcloud/               a CLOUDSDK_CONFIG: project, region, endpoints and credentials, so that
 * real gcloud comes here boto                  the same for gsutil python/sitecustomize.py  gives
 * aiplatform.init our endpoint, REST and credentials bin/trainyard, and with --shims gcloud and
 * gsutil: links to this binary Where to start: auth_client_prepare (server, at start),
 * auth_client_env (env command, and every replica). Who frees: strings are in the arena. Threads:
 * any, files are replaced whole. Errors: TY_INTERNAL, TY_RESOURCE_EXHAUSTED. One test:
 * build/test_auth env/no_google_host. */
#ifndef TY_AUTH_H
#define TY_AUTH_H

#include "base/base.h"

/* Make what is missing and point it at url ("http://127.0.0.1:7575"). A project or region the user
 * has set with gcloud config stays. The RSA key (libcrypto, loaded at the call) is made once. */
TY_NODISCARD ty_err auth_client_prepare(const char *data_dir, const char *url, const char *project,
                                        const char *region);

struct auth_var {
    const char *name;
    const char *value; /* NULL: must be unset */
};
/* Variables that make Google's clients come here. python_path_before: the user's PYTHONPATH, kept
 * behind ours. */
struct auth_var *auth_client_env(struct ty_arena *a, const char *data_dir, const char *url,
                                 const char *python_path_before, size_t *ret_count);

/* A bearer token for /token and the metadata server: 32 random bytes made at start, the same until
 * the server ends. */
const char *auth_token(void);

#endif

/* auth.h -- the local credentials Google's clients use here, and the environment that points them
 * at this server.
 *
 * The server makes, under data/client/ (0700, files 0600):
 *   key.json              a service-account key of its own; token_uri leads here
 *   token                 the bearer token gcloud sends
 *   gcloud/               a CLOUDSDK_CONFIG: project, region, endpoints and credentials, so that
 *                         real gcloud comes here
 *   boto                  the same for gsutil
 *   python/sitecustomize.py  gives aiplatform.init our endpoint, REST and credentials
 *   bundle.pem            the machine's authorities and the one behind our certificate, for jobs
 *   lib/trainyard-gs.so   brings TensorFlow's gs:// here, in jobs (preload.c)
 *   bin/trainyard         a link to this binary
 *   shims/gcloud, gsutil  the same, made by env --shims; a folder of their own, so that only a
 *                         shell that asked for them has them on PATH
 * Why no client can stray: all of it says that Google's universe is AUTH_UNIVERSE, a name that
 * cannot be looked up, so a client we have no endpoint variable for fails instead of reaching
 * Google.
 *
 * Where to start: auth_client_prepare (server, at start), auth_client_env (env, and every replica),
 * auth_replica_token (what a replica proves itself with).
 * Who frees: strings are in the arena. Threads: any, files are replaced whole.
 * Errors: TY_INTERNAL, TY_RESOURCE_EXHAUSTED, TY_DATA_LOSS, TY_FAILED_PRECONDITION (no libcrypto).
 * One test: build/test_auth env/no_google_host. */
#ifndef TY_AUTH_H
#define TY_AUTH_H

#include "base/base.h"
#include "http/http.h"

/* The universe domain of our credentials and of gcloud's configuration. A client that has no
 * endpoint variable of ours asks for SERVICE.<this>. A label of a host name has at most 63 letters
 * and this one has more, so that no resolver is ever asked and most clients give up at once; the
 * user reads it in their error message. The metadata server answers it for
 * universe/universe-domain. */
#define AUTH_UNIVERSE                                                                              \
    "trainyard-env-keeps-clients-on-this-machine-undo-with-trainyard-env-unset.invalid"

/* Make what is missing and point it at url ("http://127.0.0.1:7575"). A project or region the user
 * has set with gcloud config stays. The RSA key (libcrypto, loaded at the call) is made once. */
TY_NODISCARD ty_err auth_client_prepare(const char *data_dir, const char *url, const char *project,
                                        const char *region);
/* Make data/client/shims/gcloud and shims/gsutil, links to this binary. */
TY_NODISCARD ty_err auth_client_shims(const char *data_dir);

/* A property of the active configuration in a CLOUDSDK_CONFIG folder ("core", "project"); empty
 * when it is not set or there is no such configuration. From the arena. */
ty_str auth_gcloud_property(struct ty_arena *a, const char *gcloud_dir, const char *section,
                            const char *key);
/* Set it, or take it out with an empty value. The configuration is made if it is missing. `value`
 * must be one line. */
TY_NODISCARD ty_err auth_gcloud_property_set(struct ty_arena *a, const char *gcloud_dir,
                                             const char *section, const char *key, ty_str value);

/* The server's TLS certificate (with the authority behind it) and its key, PEM, for this machine's
 * own names and Google's storage hosts: read from data/tls/, or made there (P-256, 10 years). From
 * the arena. */
struct auth_certificate {
    ty_str certificate, key;
};
TY_NODISCARD ty_err auth_certificate_prepare(struct ty_arena *a, const char *data_dir,
                                             struct auth_certificate *ret_certificate);

/* ---- gcloud's named configurations ---- */

/* The one in use: CLOUDSDK_ACTIVE_CONFIG_NAME, or what was activated. */
ty_str auth_gcloud_active(struct ty_arena *a, const char *gcloud_dir);
/* All names, sorted, in the arena. */
TY_NODISCARD ty_err auth_gcloud_configurations(struct ty_arena *a, const char *gcloud_dir,
                                               ty_str **ret_names, size_t *ret_count);
/* Make one that leads to the same place as "default" and has no project and region yet.
 * TY_ALREADY_EXISTS. `name` must be a file name: letters, digits and '-'. */
TY_NODISCARD ty_err auth_gcloud_create(struct ty_arena *a, const char *gcloud_dir, ty_str name);
/* TY_NOT_FOUND. */
TY_NODISCARD ty_err auth_gcloud_activate(struct ty_arena *a, const char *gcloud_dir, ty_str name);
TY_NODISCARD ty_err auth_gcloud_delete(struct ty_arena *a, const char *gcloud_dir, ty_str name);

struct auth_property {
    ty_str section, key, value;
    struct auth_property *next;
};
/* All properties of one, in the arena, in the order of the file. TY_NOT_FOUND. */
TY_NODISCARD ty_err auth_gcloud_properties(struct ty_arena *a, const char *gcloud_dir, ty_str name,
                                           struct auth_property **ret_first);

struct auth_var {
    const char *name;
    const char *value; /* NULL: must be unset */
};
/* Variables that make Google's clients come here. Those of this process's own environment that
 * would send them elsewhere (every CLOUDSDK_ property, for one) are in the list as unset.
 * python_path_before: the user's PYTHONPATH, kept behind ours; may be NULL. */
struct auth_var *auth_client_env(struct ty_arena *a, const char *data_dir, const char *url,
                                 const char *python_path_before, size_t *ret_count);

/* The same for a job's replicas, none unset, and what lets TensorFlow's gs:// come here: LD_PRELOAD
 * (left out where the loader could not read the path: one with a space or colon), CURL_CA_BUNDLE
 * (left out where this machine has no authorities to put ours beside). */
struct auth_var *auth_job_env(struct ty_arena *a, const char *data_dir, const char *url,
                              size_t *ret_count);

/* Why TensorFlow's gs:// is off in jobs of this data folder, with what to do about it; NULL: it is
 * on. For doctor; the server decides the same when it starts. */
const char *auth_gs_off(struct ty_arena *a, const char *data_dir);

/* ---- replicas ---- */

enum { AUTH_SECRET_BYTES = 32 };
/* What replicas' tokens are made with: data/secret. */
struct auth_secret {
    char bytes[AUTH_SECRET_BYTES];
};
/* Read it; make it if there is none. TY_DATA_LOSS: the file is not ours. */
TY_NODISCARD ty_err auth_secret_open(const char *data_dir, struct auth_secret *ret_secret);
/* The token of a replica (its project is not part of it). */
char *auth_replica_token(struct ty_arena *a, const struct auth_secret *secret,
                         const struct http_replica *r);
/* Is this a token that we made? Then whose. It says nothing about the attempt: the caller looks
 * whether that has ended. Takes microseconds and no I/O, whatever the bytes. */
bool auth_replica_read(const struct auth_secret *secret, ty_str token, struct http_replica *ret);

/* A bearer token for /token and the metadata server: 32 random bytes as hex, made at the first
 * call, the same until the process ends. */
const char *auth_token(void);

#endif

/* auth_int.h -- what the files of auth share. */
#ifndef TY_AUTH_INT_H
#define TY_AUTH_INT_H

#include "auth/auth.h"

enum { AUTH_FILE_LIMIT = 1 << 20 };
#define AUTH_PRELOAD "lib/trainyard-gs.so"

/* key.c: (re)write client/key.json; the private key in it is kept. */
TY_NODISCARD ty_err auth_key_write(struct ty_arena *a, const char *client_dir, const char *url,
                                   ty_str project);
/* DER as PEM, between "BEGIN what" and "END what". */
ty_str auth_pem(struct ty_arena *a, const char *what, ty_str der);
/* certificate.c: where this machine, or the user by variable, has authorities; NULL: nowhere. */
const char *auth_system_bundle(void);
/* (Re)write client/bundle.pem; none without auth_certificate_prepare before. */
TY_NODISCARD ty_err auth_bundle_write(struct ty_arena *a, const char *client_dir);
/* gcloud.c: (re)write client/gcloud and client/boto. */
TY_NODISCARD ty_err auth_gcloud_write(struct ty_arena *a, const char *client_dir, const char *url,
                                      const char *project, const char *region);

/* ty_file_replace, unless the file has these bytes and this mode already. */
TY_NODISCARD ty_err auth_file_write(const char *path, ty_str bytes, mode_t mode);

#endif

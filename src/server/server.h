/* server.h -- `trainyard serve`: opens the data folder, starts scheduler and HTTP, and joins the
 * tables of all APIs.
 *
 * Who frees: server_run returns when the process is told to stop (SIGINT, SIGTERM); jobs run on.
 * One server a data folder (data/server.lock; the second one names the holder). One test:
 * build/test_server folder/newer_format_is_refused. */
#ifndef TY_SERVER_H
#define TY_SERVER_H

#include "base/base.h"

struct server_options {
    const char *data_dir;   /* NULL: ~/.trainyard */
    const char *listen;     /* NULL: from the settings */
    const char *ready_file; /* the URL is written there when it answers; NULL: none */
};
TY_NODISCARD ty_err server_run(const struct server_options *options);

#endif

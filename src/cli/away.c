/* away.c -- what to tell a user whose command got no answer: that no server runs is the likeliest
 * reason, and the wrong one to name when there is a server that does not answer this user, or one
 * that has moved. */
#include "cli/cli_int.h"

#include <pwd.h>

enum { HEALTH_MS = 2000, TABLE_BYTES = 4 << 20, STATE_LISTEN = 0x0a };

/* ---- who is there ---- */

/* The uid of the socket that listens on a TCP port of this machine, as a table of /proc/net (world
 * readable) has it:  sl  local_address rem_address st tx:rx tr:tm retrnsmt uid ... */
static bool listener_in(struct ty_arena *a, const char *table, int port, uid_t *ret_uid)
{
    ty_str text, line;
    bool more = ty_file_read(AT_FDCWD, table, TABLE_BYTES, a, &text) == TY_OK;
    while (more) {
        unsigned local_port, state, uid;
        more = ty_str_split(&text, '\n', &line);
        if (sscanf(ty_cstr(a, line), " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %u",
                   &local_port, &state, &uid) == 3 &&
            state == STATE_LISTEN && local_port == (unsigned)port) {
            *ret_uid = (uid_t)uid;
            return true;
        }
    }
    return false;
}

static bool listener_of_url(struct ty_arena *a, const char *url, uid_t *ret_uid)
{
    const char *colon = strrchr(url, ':');
    int64_t port;
    if (colon == NULL || ty_parse_i64(ty_str_of(colon + 1), &port) != TY_OK || port < 1 ||
        port > 65535)
        return false;
    return listener_in(a, "/proc/net/tcp", (int)port, ret_uid) ||
           listener_in(a, "/proc/net/tcp6", (int)port, ret_uid);
}

/* The user whose server is there, if that is somebody else: by the Unix socket that we may not use,
 * or by the port. */
static bool owner_is_other(const struct cli *c, uid_t *ret_uid)
{
    struct stat st;
    bool by_socket = c->connect != NULL && strncmp(c->connect, "unix:", 5) == 0;
    if (by_socket && access(c->connect + 5, W_OK) != 0 && errno == EACCES &&
        stat(c->connect + 5, &st) == 0)
        *ret_uid = st.st_uid;
    else if (!listener_of_url(c->arena, c->url, ret_uid))
        return false;
    return *ret_uid != geteuid();
}

static const char *user_name(struct ty_arena *a, uid_t uid)
{
    struct passwd *pw = getpwuid(uid);
    return pw != NULL ? ty_format(a, "%s (uid %u)", pw->pw_name, (unsigned)uid)
                      : ty_format(a, "uid %u", (unsigned)uid);
}

static bool url_answers(struct ty_arena *a, const char *url)
{
    struct http_client client;
    struct http_reply reply;
    if (http_client_open(&client, url) != TY_OK)
        return false;
    ty_err err = http_client_call(&client, a, HTTP_GET, "/healthz", TY_STR(""), HEALTH_MS, &reply);
    http_client_close(&client);
    return err == TY_OK;
}

/* ---- in words ---- */

const char *cli_away_text(const struct cli *c, const char *why)
{
    struct ty_arena *a = c->arena;
    struct ty_buf folder;
    uid_t uid;
    ty_buf_init(&folder, PATH_MAX * 4);
    cli_shell_quote(&folder, c->data_dir);
    const char *text, *written = cli_data_url(a, c->data_dir);
    if (owner_is_other(c, &uid))
        text = ty_format(a,
                         "a server is at %s, but it is run by %s and answers only that user; "
                         "you are %s\n"
                         "Start one of your own with: trainyard serve --listen 127.0.0.1:0",
                         c->url, user_name(a, uid), user_name(a, geteuid()));
    else if (written != NULL && strcmp(written, c->url) != 0 && url_answers(a, written))
        text = ty_format(a,
                         "no server answers at %s: the server of %s is now at %s\n"
                         "Point this shell at it: eval \"$(trainyard env --data %s)\"",
                         c->url, folder.ptr, written, folder.ptr);
    else if (listener_of_url(a, c->url, &uid))
        text = ty_format(a,
                         "a process of yours is at %s, but it did not answer: %s\n"
                         "If that is no trainyard, start one elsewhere with: trainyard serve "
                         "--listen 127.0.0.1:0",
                         c->url, why);
    else
        text = ty_format(a,
                         "no server answers at %s: %s\n"
                         "Start one with: trainyard serve --data %s",
                         c->url, why, folder.ptr);
    ty_buf_clear(&folder);
    return text;
}

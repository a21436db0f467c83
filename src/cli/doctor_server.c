/* doctor_server.c -- doctor's rows about the server: its settings, its data folder, its ports. */
#include "cli/doctor_int.h"

#include <dirent.h>
#include <sys/statvfs.h>

void doctor_settings(struct doctor *d)
{
    struct ty_arena *a = d->c->arena;
    const char *path = ty_format(a, "%s/trainyard.conf", d->c->data_dir);
    ty_str text;
    ty_err err = ty_file_read(AT_FDCWD, path, 1 << 20, a, &text);
    if (err == TY_OK)
        err = ty_config_parse(&d->config, a, path, text);
    if (err == TY_NOT_FOUND)
        doctor_found(d, DOCTOR_GOOD, "settings", "the defaults; others go into %s", path);
    else if (err == TY_OK)
        doctor_found(d, DOCTOR_GOOD, "settings", "from %s", path);
    else
        doctor_found(d, DOCTOR_BAD, "settings", "%s; 'trainyard help settings' lists them",
                     ty_err_message());
}

void doctor_server(struct doctor *d)
{
    struct cli *c = d->c;
    json_t *reply;
    ty_err err = cli_target(c);
    if (err == TY_OK)
        err = cli_call(c, HTTP_GET, "/healthz", TY_STR(""), 2000, &reply);
    if (err == TY_OK) {
        json_decref(reply);
        d->server_answers = true;
        doctor_found(d, DOCTOR_GOOD, "server", "answers at %s, data in %s", c->url, c->data_dir);
        return;
    }
    bool away = err == TY_UNAVAILABLE && !c->replied;
    const char *why = ty_cstr(c->arena, ty_str_of(ty_err_message()));
    doctor_found(d, DOCTOR_NOTE, "server", "%s", away ? cli_away_text(c, why) : why);
}

void doctor_data_folder(struct doctor *d)
{
    const char *dir = d->c->data_dir;
    struct stat st;
    if (stat(dir, &st) != 0)
        doctor_found(d, errno == ENOENT ? DOCTOR_NOTE : DOCTOR_BAD, "data folder", "%s: %s%s", dir,
                     strerror(errno), errno == ENOENT ? "; 'trainyard serve' makes it" : "");
    else if (!S_ISDIR(st.st_mode))
        doctor_found(d, DOCTOR_BAD, "data folder", "%s is no folder; give another one with --data",
                     dir);
    else if (st.st_uid != geteuid())
        doctor_found(d, DOCTOR_BAD, "data folder",
                     "%s belongs to user %u and you are %u: chown -R %u '%s', or give your own "
                     "with --data",
                     dir, (unsigned)st.st_uid, (unsigned)geteuid(), (unsigned)geteuid(), dir);
    else if (access(dir, R_OK | W_OK | X_OK) != 0)
        doctor_found(d, DOCTOR_BAD, "data folder", "%s cannot be written: chmod u+rwx '%s'", dir,
                     dir);
    else if ((st.st_mode & 077) != 0)
        doctor_found(d, DOCTOR_NOTE, "data folder",
                     "%s can be read by other users (mode %03o): chmod 700 '%s'", dir,
                     (unsigned)(st.st_mode & 0777), dir);
    else
        doctor_found(d, DOCTOR_GOOD, "data folder", "%s, yours alone", dir);
}

void doctor_disk(struct doctor *d)
{
    struct statvfs fs;
    const char *dir = d->c->data_dir;
    int64_t reserve = d->config.disk_reserve_bytes;
    if (statvfs(dir, &fs) != 0)
        return; /* the row before has said that there is none */
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    bool enough = free_bytes > (uint64_t)reserve;
    doctor_found(d, enough ? DOCTOR_GOOD : DOCTOR_BAD, "disk",
                 "%" PRIu64 " MiB free at %s; new jobs are refused below %" PRId64 " MiB%s",
                 free_bytes >> 20, dir, reserve >> 20,
                 enough ? "" : ": free some, or lower disk_reserve_bytes in trainyard.conf");
}

/* ---- the listen port ---- */

/* The inode of the socket that listens on `port`, by a file of /proc/net; 0 for none. Lines are
 * "n: LOCAL:PORT REMOTE:PORT STATE tx:rx tr:when retr uid timeout INODE ...". */
static uint64_t listener_in(struct ty_arena *a, const char *path, int64_t port)
{
    char wanted[8];
    ty_str text, line, word;
    int64_t inode;
    snprintf(wanted, sizeof(wanted), ":%04X", (unsigned)port);
    if (ty_file_read(AT_FDCWD, path, 1 << 24, a, &text) != TY_OK)
        return 0;
    for (bool more = true; more;) {
        ty_str words[10];
        size_t n = 0;
        more = ty_str_split(&text, '\n', &line);
        for (bool left = true; left && n < TY_COUNT(words);) {
            left = ty_str_split(&line, ' ', &word);
            if (word.len > 0)
                words[n++] = word;
        }
        if (n == TY_COUNT(words) && ty_str_ends(words[1], ty_str_of(wanted)) &&
            ty_str_is(words[3], "0A") && ty_parse_i64(words[9], &inode) == TY_OK)
            return (uint64_t)inode;
    }
    return 0;
}

static bool process_has(struct ty_arena *a, const char *pid, const char *socket)
{
    const char *folder = ty_format(a, "/proc/%s/fd", pid);
    char target[64];
    bool has = false;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir != NULL && !has && (e = readdir(dir)) != NULL;) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        has = strcmp(target, socket) == 0;
    }
    if (dir != NULL)
        closedir(dir);
    return has;
}

/* "process 12 (nginx)", or that it cannot be told: fd folders of other users are closed to us. */
static const char *holder_of(struct ty_arena *a, uint64_t inode)
{
    const char *socket = ty_format(a, "socket:[%" PRIu64 "]", inode);
    const char *holder = "a process of another user";
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        ty_str name = TY_STR("?");
        if (e->d_name[0] < '0' || e->d_name[0] > '9' || !process_has(a, e->d_name, socket))
            continue;
        (void)!ty_file_read(AT_FDCWD, ty_format(a, "/proc/%s/comm", e->d_name), 4096, a, &name);
        holder =
            ty_format(a, "process %s (" TY_STR_FMT ")", e->d_name, TY_STR_ARG(ty_str_trim(name)));
        break;
    }
    if (dir != NULL)
        closedir(dir);
    return holder;
}

void doctor_listen_port(struct doctor *d)
{
    struct ty_arena *a = d->c->arena;
    const char *written = cli_data_url(a, d->c->data_dir);
    ty_str address = ty_str_of(d->server_answers && written != NULL ? written : d->config.listen);
    ty_str port_text = address, head;
    int64_t port;
    while (ty_str_split(&port_text, ':', &head)) /* leaves what follows the last colon in head */
        ;
    if (ty_parse_i64(head, &port) != TY_OK || port < 0 || port > 65535)
        return; /* settings says so */
    uint64_t inode = listener_in(a, "/proc/net/tcp", port);
    if (inode == 0)
        inode = listener_in(a, "/proc/net/tcp6", port);
    if (port == 0 || inode == 0)
        doctor_found(d, DOCTOR_GOOD, "listen port", "%" PRId64 " is free", port);
    else if (d->server_answers)
        doctor_found(d, DOCTOR_GOOD, "listen port", "%" PRId64 " is held by the server: %s", port,
                     holder_of(a, inode));
    else
        doctor_found(d, DOCTOR_BAD, "listen port",
                     "%" PRId64 " is held by %s; end it, or give another port: trainyard serve "
                     "--listen 127.0.0.1:PORT",
                     port, holder_of(a, inode));
}

/* ---- the replicas' ports ---- */

static bool system_range(struct ty_arena *a, int64_t *ret_first, int64_t *ret_last)
{
    ty_str text, low, high;
    if (ty_file_read(AT_FDCWD, "/proc/sys/net/ipv4/ip_local_port_range", 256, a, &text) != TY_OK)
        return false;
    high = ty_str_trim(text);
    ty_str_split(&high, '\t', &low);
    return ty_parse_i64(low, ret_first) == TY_OK &&
           ty_parse_i64(ty_str_trim(high), ret_last) == TY_OK;
}

void doctor_replica_ports(struct doctor *d)
{
    const struct ty_config *config = &d->config;
    int64_t first, last;
    const char *range =
        ty_format(d->c->arena, "%" PRId64 "-%" PRId64, config->port_first, config->port_last);
    if (!system_range(d->c->arena, &first, &last))
        doctor_found(d, DOCTOR_NOTE, "replica ports",
                     "%s; cannot tell which ones the system gives out", range);
    else if (config->port_last < first || config->port_first > last)
        doctor_found(d, DOCTOR_GOOD, "replica ports", "%s, apart from those the system gives out",
                     range);
    else
        doctor_found(d, DOCTOR_NOTE, "replica ports",
                     "%s overlaps what the system gives out (%" PRId64 "-%" PRId64
                     "); set port_first and port_last in %s/trainyard.conf",
                     range, first, last, d->c->data_dir);
    doctor_found(d, DOCTOR_NOTE, "open ports",
                 "TensorFlow replicas listen on ALL interfaces, without authentication. Close "
                 "ports %s to other machines:\n"
                 "  nft add table inet trainyard\n"
                 "  nft 'add chain inet trainyard input { type filter hook input priority 0; }'\n"
                 "  nft 'add rule inet trainyard input iifname != \"lo\" tcp dport %s drop'\n"
                 "or, with iptables (and the same with ip6tables):\n"
                 "  iptables -I INPUT ! -i lo -p tcp --dport %" PRId64 ":%" PRId64 " -j DROP",
                 range, range, config->port_first, config->port_last);
}

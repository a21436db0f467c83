/* doctor.c -- what works on this machine and what does not, in words a user can act on. */
#include "cli/cli_int.h"

#include <dlfcn.h>
#include <sys/statvfs.h>

#include "container/container.h"
#include "exec/exec.h"
#include "python/python.h"

enum mark { GOOD, NOTE, BAD };

struct findings {
    json_t *list; /* {"check", "result", "detail"} */
    bool bad;
};

static void found(struct findings *f, enum mark mark, const char *check, const char *detail)
{
    static const char *const results[] = {"ok", "note", "missing"};
    f->bad |= mark == BAD;
    json_array_append_new(f->list, json_pack("{s:s, s:s, s:s}", "check", check, "result",
                                             results[mark], "detail", detail));
}

static void look_at_server(struct cli *c, struct findings *f)
{
    json_t *reply;
    ty_err err = cli_target(c);
    if (err == TY_OK)
        err = cli_call(c, HTTP_GET, "/healthz", TY_STR(""), 2000, &reply);
    if (err == TY_OK) {
        json_decref(reply);
        found(f, GOOD, "server",
              ty_format(c->arena, "answers at %s, data in %s", c->url, c->data_dir));
        return;
    }
    bool away = err == TY_UNAVAILABLE && !c->replied;
    const char *why = ty_cstr(c->arena, ty_str_of(ty_err_message()));
    found(f, NOTE, "server", away ? cli_away_text(c, why) : why);
}

static void look_at_isolation(struct cli *c, struct findings *f)
{
    const char *how = exec_isolation();
    bool sweep = strcmp(how, "sweep") == 0;
    found(f, sweep ? NOTE : GOOD, "isolation",
          sweep ? "no PID namespaces here: what a job leaves behind is found by a mark in its "
                  "environment"
                : ty_format(c->arena, "%s: nothing of a job outlives it", how));
}

static void look_at_cgroups(struct cli *c, struct findings *f, const struct ty_config *config)
{
    bool memory;
    const char *what = exec_cgroups(c->arena, &memory);
    if (strcmp(config->cgroups, "off") == 0)
        found(f, NOTE, "cgroups",
              "cgroups = off in trainyard.conf: limits of memory and processes are not enforced");
    else if (memory)
        found(f, GOOD, "cgroups",
              ty_format(c->arena, "%s: limits are enforced, and usage is exact", what));
    else
        found(f, NOTE, "cgroups",
              ty_format(c->arena,
                        "%s: memory limits are not enforced. With systemd, start the server in a "
                        "cgroup of its own:\n"
                        "  systemd-run --user --scope -p Delegate=yes trainyard serve",
                        what));
}

static void look_at_peers(struct cli *c, struct findings *f)
{
    if (http_peer_init() != TY_OK)
        found(f, BAD, "peer check",
              ty_format(c->arena, "%s; the server will not start", ty_err_message()));
    else
        found(f, GOOD, "peer check",
              ty_format(c->arena, "by %s: only processes of your own user get an answer",
                        http_peer_method()));
}

static void look_at_library(struct cli *c, struct findings *f, const char *file,
                            const char *package)
{
    void *lib = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (lib != NULL)
        dlclose(lib);
    found(f, lib != NULL ? GOOD : BAD, file,
          lib != NULL ? "can be loaded"
                      : ty_format(c->arena, "cannot be loaded; Debian package %s has it", package));
}

static void look_at_ports(struct cli *c, struct findings *f, const struct ty_config *config)
{
    ty_str text, low, high;
    int64_t first, last;
    const char *range =
        ty_format(c->arena, "%" PRId64 "-%" PRId64, config->port_first, config->port_last);
    if (ty_file_read(AT_FDCWD, "/proc/sys/net/ipv4/ip_local_port_range", 256, c->arena, &text) !=
        TY_OK)
        return;
    high = ty_str_trim(text);
    ty_str_split(&high, '\t', &low);
    if (ty_parse_i64(low, &first) != TY_OK || ty_parse_i64(ty_str_trim(high), &last) != TY_OK)
        return;
    bool apart = config->port_last < first || config->port_first > last;
    found(f, apart ? GOOD : NOTE, "replica ports",
          apart ? ty_format(c->arena, "%s, apart from those the system gives out", range)
                : ty_format(c->arena,
                            "%s overlaps what the system gives out (%" PRId64 "-%" PRId64
                            "); set port_first and port_last in %s/trainyard.conf",
                            range, first, last, c->data_dir));
    found(
        f, NOTE, "open ports",
        ty_format(c->arena,
                  "TensorFlow replicas listen on ALL interfaces, without authentication. Close "
                  "ports %s to other machines:\n"
                  "  nft add table inet trainyard\n"
                  "  nft 'add chain inet trainyard input { type filter hook input priority 0; }'\n"
                  "  nft 'add rule inet trainyard input iifname != \"lo\" tcp dport %s drop'\n"
                  "or, with iptables (and the same with ip6tables):\n"
                  "  iptables -I INPUT ! -i lo -p tcp --dport %" PRId64 ":%" PRId64 " -j DROP",
                  range, range, config->port_first, config->port_last));
}

static void look_at_engine(struct cli *c, struct findings *f, const struct ty_config *config)
{
    struct container_engine e;
    struct ty_buf options;
    if (container_engine_find(c->arena, config->container_engine, c->data_dir, &e) != TY_OK) {
        found(f, NOTE, "containers",
              ty_format(c->arena,
                        "%s. For jobs with images: apt install podman. Image 'host' and Python "
                        "packages need none",
                        ty_err_message()));
        return;
    }
    ty_buf_init(&options, 4096);
    for (size_t i = 0; e.options[i]; i++)
        ty_buf_addf(&options, " %s", e.options[i]);
    found(f, e.limits ? GOOD : NOTE, "containers",
          ty_format(c->arena, "%s %s (%s) starts containers%s; used with%s",
                    container_kind_name(e.kind), e.version, e.path,
                    e.limits ? "" : ", but cannot limit their memory or share of CPU",
                    options.ptr));
    ty_buf_clear(&options);
}

static void look_at_disk(struct cli *c, struct findings *f, const struct ty_config *config)
{
    struct statvfs fs;
    const char *dir = c->data_dir;
    if (statvfs(dir, &fs) != 0) {
        found(f, NOTE, "disk", ty_format(c->arena, "no data folder at %s yet", dir));
        return;
    }
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    bool enough = free_bytes > (uint64_t)config->disk_reserve_bytes;
    found(f, enough ? GOOD : BAD, "disk",
          ty_format(c->arena,
                    "%" PRIu64 " MiB free at %s; new jobs are refused below %" PRId64 " MiB",
                    free_bytes >> 20, dir, config->disk_reserve_bytes >> 20));
}

/* Commands run without Python; only jobs with packages need it. */
static void look_at_python(struct cli *c, struct findings *f, const struct ty_config *config)
{
    struct python_host host;
    struct python_listed *list = NULL;
    size_t count = 0;
    if (!python_is_there(config->python)) {
        found(f, NOTE, "python",
              ty_format(c->arena,
                        "there is no '%s'; jobs with Python packages need it. On Debian: apt "
                        "install python3-venv; another one: set python in %s/trainyard.conf",
                        config->python, c->data_dir));
        return;
    }
    ty_err err = python_host_read(c->arena, config->python, &host);
    if (err == TY_OK)
        err = python_venv_check(&host);
    if (err == TY_OK)
        err = python_runtime_list(c->arena, c->data_dir, &list, &count);
    if (err != TY_OK) {
        found(f, NOTE, "python", ty_cstr(c->arena, ty_str_of(ty_err_message())));
        return;
    }
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    ty_buf_addf(&b, "%s at %s makes virtual environments; runtimes: ", host.version,
                host.executable);
    for (size_t i = 0; i < count; i++)
        ty_buf_addf(&b, "%s" TY_STR_FMT, i ? ", " : "", TY_STR_ARG(list[i].what));
    ty_buf_addz(&b,
                count ? "" : "none yet, they are made on first use or by 'trainyard runtimes add'");
    found(f, GOOD, "python", b.ptr);
    ty_buf_clear(&b);
}

static void look_at_shell(struct cli *c, struct findings *f)
{
    bool on = getenv("TRAINYARD_ENV") != NULL;
    found(f, NOTE, "this shell",
          on ? ty_format(c->arena, "Google's clients are pointed at %s", getenv("TRAINYARD_URL"))
             : "Google's clients are not pointed here; eval \"$(trainyard env)\" does it");
}

static void print_findings(const struct findings *f)
{
    json_t *finding;
    size_t i;
    json_array_foreach (f->list, i, finding) {
        printf("%-8s %-22s %s\n", json_string_value(json_object_get(finding, "result")),
               json_string_value(json_object_get(finding, "check")),
               json_string_value(json_object_get(finding, "detail")));
    }
}

int cli_doctor(struct cli *c)
{
    struct findings f = {.list = json_array()};
    struct ty_config config;
    ty_str text;
    int status = CLI_OK;
    c->data_dir = cli_data_dir(c);
    ty_config_init(&config, c->arena);
    const char *path = ty_format(c->arena, "%s/trainyard.conf", c->data_dir);
    if (ty_file_read(AT_FDCWD, path, 1 << 20, c->arena, &text) == TY_OK &&
        ty_config_parse(&config, c->arena, path, text) != TY_OK)
        found(&f, BAD, "settings", ty_err_message());
    look_at_server(c, &f);
    look_at_isolation(c, &f);
    look_at_cgroups(c, &f, &config);
    look_at_peers(c, &f);
    look_at_library(c, &f, "libmicrohttpd.so.12", "libmicrohttpd12");
    look_at_library(c, &f, "libcrypto.so.3", "libssl3");
    look_at_python(c, &f, &config);
    look_at_engine(c, &f, &config);
    look_at_disk(c, &f, &config);
    look_at_shell(c, &f);
    look_at_ports(c, &f, &config);
    if (cli_arg(&c->args, "format").len > 0)
        status = cli_print(c, f.list, "yaml");
    else
        print_findings(&f);
    json_decref(f.list);
    return status != CLI_OK ? status : f.bad ? CLI_FAILED : CLI_OK;
}

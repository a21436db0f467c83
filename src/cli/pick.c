/* pick.c -- which job is meant: by its whole name, its id, some digits of that, or its display
 * name.
 *
 *   projects/P/locations/R/customJobs/N, or the whole id   taken as it is, nobody is asked
 *   4 digits or more     the id that begins or ends with them (ends, because ids of one day begin
 *                        alike); several: refused, with the candidates
 *   anything else        the job of exactly this display name; the newest of several, said on
 *                        stderr; else the AI Platform job of this id, in whatever region
 * Short numbers are taken as ids: that they are none is for the server to say. */
#include "cli/cli_int.h"

#include "wire/wire.h"

enum {
    LEAST_DIGITS = 4,
    ID_DIGITS = 19,
    PAGE_JOBS = 1000,
    CALL_MS = 60000,
    TEXT_BYTES = 8 << 20,
};

static bool all_digits(ty_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    return s.len > 0;
}

void cli_pick_add(struct ty_arena *a, struct cli_pick *p, const json_t *jobs)
{
    size_t i;
    json_t *job;
    bool digits = all_digits(p->text) && p->text.len >= LEAST_DIGITS;
    json_array_foreach (jobs, i, job) {
        ty_str name = wire_json_get_str(job, "name"), id;
        ty_str display = wire_json_get_str(job, "displayName");
        while (ty_str_split(&name, '/', &id))
            ;
        if (digits && (ty_str_starts(id, p->text) || ty_str_ends(id, p->text))) {
            if (p->by_id < CLI_PICK_SHOWN) {
                p->ids[p->by_id] = ty_str_dup(a, id);
                p->names[p->by_id] = cli_text_shown(a, display, false);
            }
            p->by_id++;
        }
        if (ty_str_eq(display, p->text) && p->by_name++ == 0)
            p->newest = ty_str_dup(a, id);
    }
}

static ty_err ambiguous(struct ty_arena *a, const struct cli_pick *p)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    for (size_t i = 0; i < p->by_id && i < CLI_PICK_SHOWN; i++)
        ty_buf_addf(&b, "\n  " TY_STR_FMT "  " TY_STR_FMT, TY_STR_ARG(p->ids[i]),
                    TY_STR_ARG(p->names[i]));
    if (p->by_id > CLI_PICK_SHOWN)
        ty_buf_addf(&b, "\n  ... and %zu more", p->by_id - CLI_PICK_SHOWN);
    const char *list = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return ty_fail(TY_INVALID_ARGUMENT, "'" TY_STR_FMT "' begins or ends the ids of %zu jobs:%s",
                   TY_STR_ARG(p->text), p->by_id, list);
}

ty_err cli_pick_result(struct ty_arena *a, const struct cli_pick *p, ty_str *ret_id)
{
    if (p->by_id > 1)
        return ambiguous(a, p);
    if (p->by_id == 0 && p->by_name == 0)
        return ty_fail(TY_NOT_FOUND,
                       "no job has the id or the display name '" TY_STR_FMT "', nor an id that "
                       "begins or ends with it (%d digits or more)",
                       TY_STR_ARG(p->text), LEAST_DIGITS);
    *ret_id = p->by_id == 1 ? p->ids[0] : p->newest;
    return TY_OK;
}

/* Names of all jobs, page by page: only the server's rows know them. */
static ty_err pick_ask(struct cli *c, struct cli_pick *p)
{
    ty_str token = {"", 0};
    ty_err err;
    do {
        struct ty_buf b;
        json_t *page;
        ty_buf_init(&b, 1 << 16);
        ty_buf_addf(&b, "%s?readMask=name,displayName&pageSize=%d", cli_jobs_path(c), PAGE_JOBS);
        if (token.len > 0) {
            ty_buf_addz(&b, "&pageToken=");
            wire_url_encode(&b, token);
        }
        err = cli_call(c, HTTP_GET, b.ptr, TY_STR(""), CALL_MS, &page);
        ty_buf_clear(&b);
        if (err != TY_OK)
            break;
        cli_pick_add(c->arena, p, json_object_get(page, "customJobs"));
        token = ty_str_dup(c->arena, wire_json_get_str(page, "nextPageToken"));
        json_decref(page);
    } while (token.len > 0);
    return err;
}

/* An AI Platform job is found in the region it was given; its display name is its id. */
static ty_err pick_elsewhere(struct cli *c, struct cli_pick *p)
{
    json_t *job;
    ty_err err = cli_call(c, HTTP_GET, cli_ml_path(c, p->text, ""), TY_STR(""), CALL_MS, &job);
    if (err != TY_OK)
        return err == TY_NOT_FOUND || err == TY_INVALID_ARGUMENT ? TY_OK : err;
    c->region =
        ty_cstr(c->arena, wire_json_get_str(json_object_get(job, "trainingInput"), "region"));
    json_decref(job);
    return pick_ask(c, p);
}

int cli_job_begin(struct cli *c, ty_str *ret_id)
{
    ty_str text = c->args.positional;
    ty_err err = cli_target(c);
    if (err != TY_OK)
        return cli_fail(c, err);
    bool number = all_digits(text) && (text.len < LEAST_DIGITS || text.len >= ID_DIGITS);
    if (number || cli_job_is_path(text)) {
        if (cli_job_name(c, text, ret_id) != TY_OK)
            return cli_fail_usage(c);
        return CLI_OK;
    }
    struct cli_pick p = {.text = text};
    err = pick_ask(c, &p);
    if (err == TY_OK && p.by_id + p.by_name == 0)
        err = pick_elsewhere(c, &p);
    if (err == TY_OK)
        err = cli_pick_result(c->arena, &p, ret_id);
    if (err == TY_NOT_FOUND && c->replied)
        err = ty_wrap(err, "project '%s', region '%s'", c->project, c->region);
    if (err != TY_OK)
        return cli_fail(c, err);
    if (p.by_id == 0 && p.by_name > 1)
        fprintf(stderr, "%zu jobs are named '%s'; this is the newest: " TY_STR_FMT "\n", p.by_name,
                cli_text_for(c->arena, STDERR_FILENO, ty_cstr(c->arena, text)),
                TY_STR_ARG(*ret_id));
    return CLI_OK;
}

/* ---- what our own API knows of it ---- */

ty_err cli_job_ask(struct cli *c, ty_str id, const char *what, json_t **ret_reply)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    ty_buf_addz(&b, "/trainyard/v1/projects/");
    wire_url_encode(&b, ty_str_of(c->project));
    ty_buf_addf(&b, "/jobs/" TY_STR_FMT "/%s", TY_STR_ARG(id), what);
    ty_err err = cli_call(c, HTTP_GET, b.ptr, TY_STR(""), CALL_MS, ret_reply);
    ty_buf_clear(&b);
    return err;
}

int cli_job_show(struct cli *c, json_t *reply, cli_text_fn text)
{
    struct ty_buf b;
    int status = CLI_OK;
    if (cli_arg(&c->args, "format").len > 0) {
        status = cli_print(c, reply, "yaml");
    } else {
        ty_buf_init(&b, TEXT_BYTES);
        text(c->arena, &b, reply);
        fputs(b.ptr, stdout);
        ty_buf_clear(&b);
    }
    json_decref(reply);
    return status;
}

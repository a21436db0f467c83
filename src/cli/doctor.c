/* doctor.c -- what works on this machine and what does not, in words a user can act on: the table
 * of rows, and printing what they found. */
#include "cli/doctor_int.h"

void doctor_found(struct doctor *d, enum doctor_mark mark, const char *check, const char *fmt, ...)
{
    static const char *const results[] = {"ok", "note", "missing"};
    char text[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    d->bad |= mark == DOCTOR_BAD;
    ty_str shown = cli_text_shown(d->c->arena, ty_str_of(text), true);
    json_array_append_new(d->findings,
                          json_pack("{s:s, s:s, s:s#}", "check", check, "result", results[mark],
                                    "detail", shown.ptr, (int)shown.len));
}

static void (*const rows[])(struct doctor *d) = {
#define DOCTOR_ROW(name) doctor_##name,
#include "cli/doctor.def"
#undef DOCTOR_ROW
};

static void print_findings(const struct doctor *d)
{
    json_t *finding;
    size_t i;
    json_array_foreach (d->findings, i, finding) {
        printf("%-8s %-20s %s\n", json_string_value(json_object_get(finding, "result")),
               json_string_value(json_object_get(finding, "check")),
               json_string_value(json_object_get(finding, "detail")));
    }
}

int cli_doctor(struct cli *c)
{
    struct doctor d = {.c = c, .findings = json_array()};
    int status = CLI_OK;
    c->data_dir = cli_data_dir(c);
    ty_config_init(&d.config, c->arena);
    for (size_t i = 0; i < TY_COUNT(rows); i++)
        rows[i](&d);
    if (cli_arg(&c->args, "format").len > 0)
        status = cli_print(c, d.findings, "yaml");
    else
        print_findings(&d);
    json_decref(d.findings);
    return status != CLI_OK ? status : d.bad ? CLI_FAILED : CLI_OK;
}

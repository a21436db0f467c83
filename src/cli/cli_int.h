/* cli_int.h -- what the files of cli share.
 *
 *   table.c   commands.def as tables, finding a command, help
 *   flags.c   gcloud's flag grammar
 *   flagsfile.c  --flags-file
 *   package.c, local_run.c   a trainer's folder as a package; local-run
 *   spec.c    flags and YAML into a CustomJob
 *   ml_jobs.c, ml_input.c, ml_local.c   ai-platform: jobs, flags and YAML into one; local train
 *   target.c  which server, project, region; calls to it
 *   away.c    what to say when no server answers
 *   print.c   --format
 *   projection.c, transform.c, cut.c, sort.c  the keys in it
 *   grid.c    tables
 *   filter.c  --filter
 *   text.c    text of others, for a terminal
 *   pick.c    which job is meant
 *   watch.c   list --watch
 *   storage.c  storage and gsutil, which src/storage does
 *   jobs.c, logs.c, why.c, usage.c, config.c, configurations.c, completion.c, env.c, runtimes.c,
 * backup.c, doctor.c, tensorboard.c the commands */
#ifndef TY_CLI_INT_H
#define TY_CLI_INT_H

#include "cli/cli.h"
#include "http/http.h"

#include <jansson.h>

enum cli_kind { CLI_STRING, CLI_INT, CLI_LIMIT, CLI_BOOL, CLI_LIST, CLI_DICT, CLI_SPEC };
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

struct cli_flag {
    const char *name; /* NULL ends a table */
    enum cli_kind kind;
    const char *metavar, *help;
};
struct cli;
struct cli_command {
    const char *words; /* "ai custom-jobs create" */
    /* "" for none, "A B" for two, "[-- ARG ...]" for all after "--", alone or behind one */
    const char *positional;
    const char *summary, *details;
    const struct cli_flag *flags;
    int (*run)(struct cli *c); /* NULL: main.c runs it */
};
extern const struct cli_command cli_commands[];
extern const size_t cli_command_count;
extern const struct cli_flag cli_globals[];

/* A flag as given, in order. A bool's text is "true" or "false". */
struct cli_value {
    const struct cli_flag *flag;
    ty_str text;
    struct cli_value *next;
};
struct cli_args {
    struct cli_value *first, **tail;
    ty_str positional; /* for help and completion: all words, joined by a space */
    ty_str second;     /* of a command with two */
    char **words;      /* all of them, of a command that takes any number */
    int word_count;
    char **rest; /* what follows "--", of a command that takes it */
    int rest_count;
};

/* One run of one command. */
struct cli {
    struct ty_arena *arena;
    const struct cli_command *command;
    struct cli_args args;
    bool as_gcloud;    /* called by a link named gcloud */
    const char *track; /* "", "beta" or "alpha" */
    int argc;          /* all words given, without the program's */
    char **argv;
    const char *program; /* how to call us again, in what we print: it can be pasted */
    const char *data_dir;
    const char *url;     /* http://...; what people read */
    const char *connect; /* the same, or unix:... */
    const char *project, *region;
    struct http_client client;
    bool replied; /* the last call got a reply, even if that was an error */
};

/* ---- cli.c ---- */

/* Called as gcloud, for what it does and we do not: become the real one. Returns, with the exit
 * status, only if that cannot be. */
int cli_run_real(struct cli *c);

/* ---- table.c ---- */

/* The command whose words `argv` starts with, flags between them left aside. The indices of its
 * words are marked in is_word. NULL: none. */
const struct cli_command *cli_command_find(int argc, char **argv, bool *is_word);
const struct cli_command *cli_command_named(ty_str words);
const struct cli_flag *cli_flag_find(const struct cli_command *cmd, ty_str name);
/* The name of the list that is nearest to `wrong`, or NULL if none is near. */
const char *cli_nearest(ty_str wrong, const char *const *names, size_t count);
/* The command that `given` may have meant: its words, or the last ones of them, are near; or NULL.
 */
const char *cli_command_near(struct ty_arena *a, ty_str given);
void cli_command_help(const struct cli_command *cmd, struct ty_buf *b);
void cli_general_help(struct ty_buf *b);
/* The commands that begin with `words` and a space; false, and nothing added, if there are none. */
bool cli_group_help(ty_str words, struct ty_buf *b);
void cli_settings_help(struct ty_buf *b); /* every setting of config.def */

/* ---- flags.c ---- */

/* Does it take any number of arguments? */
bool cli_takes_many(const struct cli_command *cmd);
bool cli_takes_rest(const struct cli_command *cmd); /* what follows "--" is another program's */
/* Parse what follows the command's words. TY_INVALID_ARGUMENT with a sentence for the user. */
TY_NODISCARD ty_err cli_args_parse(struct ty_arena *a, const struct cli_command *cmd, int argc,
                                   char **argv, struct cli_args *ret_args);
/* The last value of a flag; empty when it was not given. */
ty_str cli_arg(const struct cli_args *args, const char *name);
bool cli_arg_given(const struct cli_args *args, const char *name);
bool cli_arg_on(const struct cli_args *args, const char *name);
/* A CLI_INT's or CLI_LIMIT's value, or `otherwise`: also of unlimited. */
int64_t cli_arg_int(const struct cli_args *args, const char *name, int64_t otherwise);
/* A whole number above 0; a mistake is named as `what`. */
TY_NODISCARD ty_err cli_number_parse(const char *what, ty_str text, int64_t *ret_number);

/* One element of a list; for dicts with its key. */
struct cli_item {
    ty_str key, value;
    struct cli_item *next;
};
TY_NODISCARD ty_err cli_list_split(struct ty_arena *a, ty_str text, struct cli_item **ret_items);
TY_NODISCARD ty_err cli_dict_split(struct ty_arena *a, const char *flag, ty_str text,
                                   struct cli_item **ret_items);

/* ---- flagsfile.c ---- */

/* Put the flags of every --flags-file in its place. The words are in the arena. */
TY_NODISCARD ty_err cli_flags_expand(struct ty_arena *a, const struct cli_command *cmd, int *argc,
                                     char ***argv);

/* ---- spec.c ---- */

/* The pools that --worker-pool-spec describes, a new reference; NULL in *ret_pools if there are
 * none. Errors are wrong use. */
TY_NODISCARD ty_err cli_pools_from_flags(struct ty_arena *a, const struct cli_args *args,
                                         json_t **ret_pools);
/* A YAML file called `path`, read as gcloud reads it. What is odd about it is said on stderr. */
TY_NODISCARD ty_err cli_yaml_parse(ty_str text, const char *path, json_t **ret_value);
/* A CustomJobSpec from the text of a --config file called `path`. */
TY_NODISCARD ty_err cli_spec_from_yaml(ty_str text, const char *path, json_t **ret_spec);
/* What gcloud asks of the pools of such a file, if they are not replaced by flags. */
TY_NODISCARD ty_err cli_spec_check(const json_t *spec);
/* The body of a create call: `spec` (may be NULL) with flags laid over it. Takes over both. */
TY_NODISCARD ty_err cli_job_build(struct ty_arena *a, const struct cli_args *args, json_t *spec,
                                  json_t *pools, json_t **ret_body);

/* Set a field by its camelCase name, also where the file spelled it in snake_case. Takes `value`.
 */
void cli_field_set(json_t *object, const char *name, json_t *value);
json_t *cli_field_get(json_t *object, const char *name);
/* A JSON string of a flag's value; bytes that are not UTF-8 are refused by the flag's name. */
TY_NODISCARD ty_err cli_text_new(const char *flag, ty_str text, json_t **ret_text);
/* All elements of a list or dict flag, over all its occurrences. */
TY_NODISCARD ty_err cli_list_new(struct ty_arena *a, const struct cli_args *args, const char *flag,
                                 json_t **ret_list);
TY_NODISCARD ty_err cli_dict_new(struct ty_arena *a, const struct cli_args *args, const char *flag,
                                 json_t **ret_dict);
/* The full name that --kms-key and its flags give; empty: none was given. */
TY_NODISCARD ty_err cli_key_name(struct ty_arena *a, const struct cli_args *args, ty_str *ret_name);

/* ---- ml_input.c ---- */

/* The body of ml's jobs.create: the text of a --config file called `path` (NULL: none), with flags
 * laid over it. `packages` are URIs (may be NULL). */
TY_NODISCARD ty_err cli_ml_body(struct cli *c, ty_str config, const char *path,
                                const json_t *packages, json_t **ret_body);

/* ---- ml_jobs.c ---- */

/* /v1/projects/P/jobs; with a job /JOB behind it, then `verb` as it is. */
const char *cli_ml_path(struct cli *c, ty_str job, const char *verb);

/* ---- package.c ---- */

/* A folder with a trainer, as local-run and local-package-path name it. Paths are absolute. */
struct cli_source {
    const char *folder, *image;
    const char *module, *script; /* one of them */
    const char *only;            /* of a folder that is no project: this folder in it; NULL: all */
    const char **requirements, **extra_packages, **extra_dirs;
    size_t requirement_count, extra_package_count, extra_dir_count;
};
/* Archives for pip, in data/packages, and what to run of them. */
struct cli_packed {
    const char *module;
    const char **packages;
    size_t count;
};
/* Sets c->data_dir. TY_INVALID_ARGUMENT: what was given is wrong. */
TY_NODISCARD ty_err cli_source_pack(struct cli *c, const struct cli_source *s,
                                    struct cli_packed *ret_packed);
/* Words between any of the separators, without the empty ones; NULL-ended. */
const char **cli_words(struct cli *c, ty_str list, const char *separators, size_t *ret_count);
/* The same as absolute paths; they need not exist. */
const char **cli_paths(struct cli *c, ty_str list, const char *separators, size_t *ret_count);
/* Make the package that the first pool's localPackage (spec.c) describes, and give it to all pools.
 * Nothing happens if there is none. */
TY_NODISCARD ty_err cli_pools_package(struct cli *c, json_t *pools);

/* ---- jobs.c: files ---- */

/* The text of --config, a file or stdin, and what to call it. */
TY_NODISCARD ty_err cli_config_text(struct cli *c, ty_str *ret_text, const char **ret_path);

/* ---- local_run.c ---- */

/* NAME=VALUE, NULL-ended: what points Google's clients at the yard, if this data folder has one. */
const char **cli_client_env(struct cli *c);

/* ---- target.c ---- */

/* The settings of c->data_dir. */
TY_NODISCARD ty_err cli_config_read(struct cli *c, struct ty_config *ret_config);

/* Fill data_dir, url, connect, project, region from flags, variables and files. */
TY_NODISCARD ty_err cli_target(struct cli *c);
/* The region of the older commands: --region, CLOUDSDK_COMPUTE_REGION, compute/region; or NULL. */
const char *cli_compute_region(struct cli *c);
/* The data folder by --data, TRAINYARD_DATA or ~/.trainyard. */
const char *cli_data_dir(struct cli *c);
/* gcloud's configuration: CLOUDSDK_CONFIG, or the one in data_dir, which must be set. */
const char *cli_gcloud_dir(struct cli *c);
/* The URL the server of this data folder wrote down, or NULL. */
const char *cli_data_url(struct ty_arena *a, const char *data_dir);
/* A call to the server; a reply that is an error is a failure with the server's words. */
TY_NODISCARD ty_err cli_call(struct cli *c, enum http_method method, const char *target,
                             ty_str body, int64_t timeout_ms, json_t **ret_reply);
/* What was not understood or did not work, as gcloud says it. Returns the exit status. */
int cli_fail(const struct cli *c, ty_err err);
int cli_fail_usage(const struct cli *c);
/* A value that will not do, said without a status name; the exit status is CLI_FAILED. */
int cli_fail_value(const struct cli *c);
/* A status line on stderr, which --no-user-output-enabled leaves out. */
void cli_say(const struct cli *c, const char *fmt, ...) TY_PRINTF(2, 3);

/* ---- logs.c ---- */

/* How to follow a job's log. */
struct cli_follow {
    ty_str id; /* url-encoded */
    bool ml;   /* as the older commands do: one more column, their words for states */
    FILE *out;
    const char *again; /* how to come back after Ctrl-C */
};
/* Until the job has ended: *ret_state is then its state, JOB_STATE_... Returns the exit status of
 * what went wrong, which was said, or CLI_OK. */
int cli_log_follow(struct cli *c, const struct cli_follow *how, const char **ret_state);

/* ---- storage.c ---- */

/* Copy a file to a gs:// URL, without a word unless it fails. */
TY_NODISCARD int cli_upload(struct cli *c, const char *file, const char *url);

/* ---- away.c ---- */

/* What to tell a user whom c's server did not answer, because of `why`, and what to do about it:
 * two lines, without a newline at the end. */
const char *cli_away_text(const struct cli *c, const char *why);

/* ---- print.c ---- */

/* Print a job (or an array of them) by --format; `otherwise` when none was given. Returns the exit
 * status. */
int cli_print(const struct cli *c, const json_t *value, const char *otherwise);
/* A --format that is none is wrong use; checked before anything is done. */
TY_NODISCARD ty_err cli_format_check(const struct cli_args *args);
bool cli_color(int fd); /* a terminal that wants colours */

/* ---- grid.c ---- */

/* `rows` rows of `columns` cells (CLI_MAX_COLUMNS at most), aligned, made safe for a terminal. */
void cli_table_add(struct ty_arena *a, struct ty_buf *b, ty_str *cells, size_t rows,
                   size_t columns);
/* How --format=table[...] looks. */
enum { CLI_MAX_COLUMNS = 32 };
enum cli_align { CLI_LEFT, CLI_CENTER, CLI_RIGHT };
struct cli_grid {
    bool heading, box, all_box; /* the first row is one; all_box: lines between rows too */
    size_t pad;                 /* spaces between columns that are in no box */
    ty_str title;
    enum cli_align align[CLI_MAX_COLUMNS];
};
void cli_grid_add(struct ty_arena *a, struct ty_buf *b, ty_str *cells, size_t rows, size_t columns,
                  const struct cli_grid *grid);
/* Jobs as a table: id, name, state, times. */
void cli_job_table_add(struct ty_arena *a, struct ty_buf *b, const json_t *jobs);
const char *cli_span_text(struct ty_arena *a, int64_t ns); /* "12s", "5m", "3h", "2d" */

/* ---- projection.c ---- */

enum { CLI_CALL_ARGS = 8 };
/* A transform and what it was given: transform.c. */
struct cli_call {
    size_t transform;
    ty_str args[CLI_CALL_ARGS];
    bool given[CLI_CALL_ARGS];
};
struct cli_column {
    ty_str path; /* borrowed: jobSpec.workerPoolSpecs[0].replicaCount */
    struct cli_call calls[4];
    size_t call_count;
    ty_str label;
    bool labelled, reverse, optional;
    enum cli_align align;
    int64_t sort; /* 0: not sorted by */
};
/* "KEY,KEY,..."; wrong keys and transforms are named. */
TY_NODISCARD ty_err cli_columns_parse(ty_str keys, struct cli_column ret_columns[CLI_MAX_COLUMNS],
                                      size_t *ret_count);
/* "path.transform()", without attributes. The caller wraps errors in the flag's name. */
TY_NODISCARD ty_err cli_key_parse(ty_str key, struct cli_column *ret_column);
ty_str cli_column_heading(struct ty_arena *a, const struct cli_column *column, bool capitals);
/* What the item has there; empty for nothing. A list is joined by `delimiter`, or, if that is NULL,
 * as Python writes it. */
ty_str cli_column_text(struct ty_arena *a, const struct cli_column *column, const json_t *item,
                       const char *delimiter);
/* The same as a value: a new reference, or NULL. */
json_t *cli_column_value(struct ty_arena *a, const struct cli_column *column, const json_t *item);
/* What the column's transforms make of a value, which may be NULL and is taken over. */
json_t *cli_calls_apply(struct ty_arena *a, const struct cli_column *column, json_t *value);
/* What these columns leave of an item. A new reference. */
json_t *cli_columns_keep(struct ty_arena *a, const struct cli_column *columns, size_t count,
                         const json_t *item);
bool cli_path_is_good(ty_str path);
/* The value at a path of names and indexes, of which [] and the name of an array stand for many: a
 * new reference, or NULL. */
json_t *cli_json_at(const json_t *value, ty_str path);
/* Put `by` in the place of the member at a path, if there is one. */
void cli_json_replace(json_t *value, ty_str path, json_t *by);
/* Like ty_str_split, but not inside quotes and brackets. */
bool cli_piece_split(ty_str *rest, char at, ty_str *ret_head);
ty_str cli_unquoted(ty_str text); /* 'x' and "x" are x */

/* ---- transform.c ---- */

TY_NODISCARD ty_err cli_call_parse(ty_str name, ty_str args, struct cli_call *ret_call);
json_t *cli_call_apply(struct ty_arena *a, const struct cli_call *call, const json_t *value);
/* A value on a line, as gcloud has it: the elements of a list, or k=v, with `separator` between. */
void cli_value_text(struct ty_buf *b, const json_t *v, const char *separator);
/* The same, but a list or an object as Python writes it. */
void cli_value_inline(struct ty_buf *b, const json_t *v);

/* ---- cut.c: transforms ---- */

json_t *cli_do_firstof(struct ty_arena *a, const struct cli_call *call, const json_t *v);
json_t *cli_do_split(struct ty_arena *a, const struct cli_call *call, const json_t *v);
json_t *cli_do_slice(struct ty_arena *a, const struct cli_call *call, const json_t *v);
json_t *cli_do_sub(struct ty_arena *a, const struct cli_call *call, const json_t *v);
json_t *cli_do_format(struct ty_arena *a, const struct cli_call *call, const json_t *v);
/* What they were given is checked before anything is done. */
TY_NODISCARD ty_err cli_sub_check(const struct cli_call *call);
TY_NODISCARD ty_err cli_format_text_check(ty_str format);

/* ---- sort.c ---- */

/* The items in the order of --sort-by=KEY,~KEY, or as the rows of a table; a new array. */
json_t *cli_sort_by_keys(struct ty_arena *a, ty_str keys, bool table, const json_t *list);
/* In the order of columns with :sort=N; a new array. */
json_t *cli_sort_by_columns(struct ty_arena *a, const struct cli_column *columns, size_t count,
                            const json_t *list);

/* ---- filter.c ---- */

struct cli_filter;
/* An expression as gcloud's --filter has it. To be cleared, also if NULL. */
TY_NODISCARD ty_err cli_filter_parse(struct ty_arena *a, ty_str text,
                                     struct cli_filter **ret_filter);
bool cli_filter_matches(struct cli_filter *f, const json_t *item);
/* Say which keys were in none of the items. NULL: nothing. */
void cli_filter_warn(const struct cli_filter *f);
void cli_filter_clear(struct cli_filter *f);

/* ---- text.c ---- */

/* With control characters (newline and tab only if not `lines`), marks of direction and bytes that
 * are not UTF-8 as escapes. NUL-terminated. */
ty_str cli_text_shown(struct ty_arena *a, ty_str text, bool lines);
/* That, lines left, if `fd` is a terminal; else as it is. */
const char *cli_text_for(struct ty_arena *a, int fd, const char *text);
/* Take a character off the start of a text that is not empty; what is no UTF-8 comes byte by byte.
 */
uint32_t cli_char_take(ty_str *text);
void cli_char_add(struct ty_buf *b, uint32_t code);
/* Columns on a terminal. */
size_t cli_text_width(ty_str text);

/* ---- config.c ---- */

/* May we write to this CLOUDSDK_CONFIG? Else a message was recorded. data_dir must be set. */
bool cli_gcloud_is_ours(struct cli *c, const char *folder);

/* ---- env.c ---- */

/* Text that a POSIX shell reads as exactly `value`. */
void cli_shell_quote(struct ty_buf *b, const char *value);

int cli_env(struct cli *c);
int cli_custom_jobs_create(struct cli *c);
int cli_custom_jobs_list(struct cli *c);
int cli_custom_jobs_describe(struct cli *c);
int cli_custom_jobs_cancel(struct cli *c);
int cli_custom_jobs_stream_logs(struct cli *c);
int cli_custom_jobs_local_run(struct cli *c);
int cli_ml_submit(struct cli *c);
int cli_ml_list(struct cli *c);
int cli_ml_describe(struct cli *c);
int cli_ml_cancel(struct cli *c);
int cli_ml_stream_logs(struct cli *c);
int cli_ml_local_train(struct cli *c);
int cli_why(struct cli *c);
int cli_usage(struct cli *c);
int cli_config_set(struct cli *c);
int cli_config_get(struct cli *c);
int cli_config_get_value(struct cli *c);
int cli_config_unset(struct cli *c);
int cli_config_list(struct cli *c);
int cli_config_configurations_list(struct cli *c);
int cli_config_configurations_create(struct cli *c);
int cli_config_configurations_activate(struct cli *c);
int cli_config_configurations_describe(struct cli *c);
int cli_config_configurations_delete(struct cli *c);
int cli_completion(struct cli *c);
int cli_runtimes_list(struct cli *c);
int cli_runtimes_add(struct cli *c);
int cli_runtimes_remove(struct cli *c);
int cli_backup(struct cli *c);
int cli_restore(struct cli *c);
int cli_doctor(struct cli *c);
int cli_storage(struct cli *c);
int cli_tensorboard(struct cli *c);
int cli_version(struct cli *c);
int cli_help_show(struct cli *c);
/* ---- storage.c ---- */

/* Called as gsutil: its whole command line. *ret_known is false, and nothing has been done, if that
 * is none of ours. */
int cli_gsutil(struct cli *c, bool *ret_known);

/* ---- why.c ---- */

/* The answer of the server's why route, for people. */
void cli_why_text(struct ty_arena *a, struct ty_buf *b, const json_t *why);

/* ---- usage.c ---- */

/* The answer of the server's usage route, for people: all of it, or the receipt alone. */
void cli_usage_text(struct ty_arena *a, struct ty_buf *b, const json_t *usage);
void cli_usage_receipt(struct ty_arena *a, struct ty_buf *b, const json_t *usage);
/* The usage of job `id`, a new reference. */
TY_NODISCARD ty_err cli_usage_fetch(struct cli *c, ty_str id, json_t **ret_usage);

/* ---- watch.c ---- */

/* Until Ctrl-C, which ends the process with CLI_INTERRUPTED, or an error. */
int cli_list_watch(struct cli *c);
/* A line for each job whose state is not as `seen` (name: state) has it, which is brought up to
 * date; oldest first. */
void cli_watch_changes(struct ty_arena *a, json_t *seen, const json_t *jobs, struct ty_buf *b);

/* ---- jobs.c: used by pick.c and watch.c ---- */

/* The jobs that list's flags ask for, in their order. A new reference. */
TY_NODISCARD ty_err cli_jobs_fetch(struct cli *c, json_t **ret_jobs);

/* Split JOB into project, region and id (url-encoded) and set c's by it. */
TY_NODISCARD ty_err cli_job_name(struct cli *c, ty_str job, ty_str *ret_id);
bool cli_job_is_path(ty_str job);         /* it names more than a job */
const char *cli_jobs_path(struct cli *c); /* /v1/projects/P/locations/R/customJobs */

/* ---- pick.c ---- */

/* cli_target, and the id (url-encoded) of the job that the command line names, in any of its ways.
 * Returns the exit status; what went wrong was said. */
TY_NODISCARD int cli_job_begin(struct cli *c, ty_str *ret_id);
/* GET /trainyard/v1/projects/P/jobs/<id>/<what>. */
TY_NODISCARD ty_err cli_job_ask(struct cli *c, ty_str id, const char *what, json_t **ret_reply);
/* Print that by --format, or in words. Takes `reply`; returns the exit status. */
typedef void (*cli_text_fn)(struct ty_arena *a, struct ty_buf *b, const json_t *reply);
int cli_job_show(struct cli *c, json_t *reply, cli_text_fn text);

enum { CLI_PICK_SHOWN = 10 };
/* Jobs that `text` may mean. Zero-initialised, with text, is ready. */
struct cli_pick {
    ty_str text;
    size_t by_id, by_name;                             /* how many */
    ty_str ids[CLI_PICK_SHOWN], names[CLI_PICK_SHOWN]; /* the first of by_id */
    ty_str newest;                                     /* of by_name */
};
/* Look at a page of jobs, newest first. */
void cli_pick_add(struct ty_arena *a, struct cli_pick *p, const json_t *jobs);
/* The one that is meant. TY_INVALID_ARGUMENT: several; TY_NOT_FOUND. */
TY_NODISCARD ty_err cli_pick_result(struct ty_arena *a, const struct cli_pick *p, ty_str *ret_id);

#endif

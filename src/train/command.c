/* command.c -- trainyard train, predict and model show: flags into options.
 *
 * Flags are those of the reference trainers: --k v, --k=v, - for _ in names, several words after a
 * flag that takes a list. What is no flag of ours is a parameter of the model file. */
#include "train/train_int.h"

/* A peer is gone: those that are left ask to be started again, all of them (exec/rules.c). */
enum { FAILED = 1, USAGE = 2, TRY_AGAIN = 75 };

struct flag {
    const char *name;
    bool takes_value;
    ty_err (*set)(struct train_options *o, const char *value);
};

static ty_err paths_add(const char **list, size_t *count, const char *value)
{
    if (*count == TRAIN_MAX_PATHS)
        return ty_fail(TY_INVALID_ARGUMENT, "more than %d paths", TRAIN_MAX_PATHS);
    list[(*count)++] = value;
    return TY_OK;
}

static ty_err set_train(struct train_options *o, const char *value)
{
    return paths_add(o->train_paths, &o->train_count, value);
}

static ty_err set_eval(struct train_options *o, const char *value)
{
    return paths_add(o->eval_paths, &o->eval_count, value);
}

static ty_err set_output(struct train_options *o, const char *value)
{
    o->output_dir = value;
    return TY_OK;
}

/* AI Platform's own flag: where outputs go, for trainers that have no other flag for it. */
static ty_err set_job_dir(struct train_options *o, const char *value)
{
    if (o->output_dir == NULL)
        o->output_dir = value;
    return TY_OK;
}

static ty_err set_model(struct train_options *o, const char *value)
{
    o->model = value;
    return TY_OK;
}

static ty_err set_init(struct train_options *o, const char *value)
{
    o->init_from = value;
    return TY_OK;
}

static ty_err set_threads(struct train_options *o, const char *value)
{
    int64_t n;
    if (ty_parse_i64(ty_str_of(value), &n) != TY_OK || n < 0 || n > 256)
        return ty_fail(TY_INVALID_ARGUMENT, "--threads must be 0 to 256");
    o->threads = (int)n;
    return TY_OK;
}

static ty_err set_strategy(struct train_options *o, const char *value)
{
    o->strategy = value;
    return TY_OK;
}

static ty_err set_devices(struct train_options *o, const char *value)
{
    int64_t n;
    if (ty_parse_i64(ty_str_of(value), &n) != TY_OK || n < 1 || n > NN_MAX_SHARDS)
        return ty_fail(TY_INVALID_ARGUMENT, "--devices must be 1 to %d", NN_MAX_SHARDS);
    o->devices = (int)n;
    return TY_OK;
}

static ty_err set_shards(struct train_options *o, const char *value)
{
    if (ty_parse_i64(ty_str_of(value), &o->shards) != TY_OK || o->shards < 1 ||
        o->shards > NN_MAX_SHARDS)
        return ty_fail(TY_INVALID_ARGUMENT, "--shards must be 1 to %d", NN_MAX_SHARDS);
    return TY_OK;
}

static ty_err set_seed(struct train_options *o, const char *value)
{
    if (ty_parse_i64(ty_str_of(value), &o->seed) != TY_OK || o->seed < 0)
        return ty_fail(TY_INVALID_ARGUMENT, "--seed must be a whole number, 0 or more");
    return TY_OK;
}

static ty_err set_cache(struct train_options *o, const char *value)
{
    int64_t n;
    if (ty_parse_i64(ty_str_of(value), &n) != TY_OK || n < 1 || n > INT32_MAX)
        return ty_fail(TY_INVALID_ARGUMENT, "--cache_mb must be 1 or more");
    o->cache_bytes = (size_t)n << 20;
    return TY_OK;
}

static ty_err set_staleness(struct train_options *o, const char *value)
{
    o->bounded = true;
    if (ty_parse_i64(ty_str_of(value), &o->staleness) != TY_OK || o->staleness < 0 ||
        o->staleness > INT32_MAX)
        return ty_fail(TY_INVALID_ARGUMENT, "--staleness must be a whole number, 0 or more");
    return TY_OK;
}

static ty_err set_ps_wait(struct train_options *o, const char *value)
{
    if (ty_parse_i64(ty_str_of(value), &o->ps_wait_s) != TY_OK || o->ps_wait_s < 1 ||
        o->ps_wait_s > 86400)
        return ty_fail(TY_INVALID_ARGUMENT, "--ps_wait must be 1 to 86400 seconds");
    return TY_OK;
}

static ty_err set_ps_dir(struct train_options *o, const char *value)
{
    o->ps_dir = value;
    return TY_OK;
}

static ty_err set_ps_listen(struct train_options *o, const char *value)
{
    o->ps_listen = value;
    return TY_OK;
}

static ty_err set_ps_trace(struct train_options *o, const char *value)
{
    o->ps_trace = value;
    return TY_OK;
}

#define SETTER(name)                                                                               \
    static ty_err set_##name(struct train_options *o, const char *value)                           \
    {                                                                                              \
        (void)value;                                                                               \
        o->name = true;                                                                            \
        return TY_OK;                                                                              \
    }
SETTER(resume)
SETTER(quiet)
SETTER(plot)
SETTER(no_export)
SETTER(histograms)
#undef SETTER

static const struct flag FLAGS[] = {
    {"train_data_path", true, set_train},
    {"train_files", true, set_train},
    {"eval_data_path", true, set_eval},
    {"eval_files", true, set_eval},
    {"output_dir", true, set_output},
    {"job_dir", true, set_job_dir},
    {"model_file", true, set_model},
    {"init_from", true, set_init},
    {"threads", true, set_threads},
    {"seed", true, set_seed},
    {"strategy", true, set_strategy},
    {"devices", true, set_devices},
    {"shards", true, set_shards},
    {"cache_mb", true, set_cache},
    {"resume", false, set_resume},
    {"quiet", false, set_quiet},
    {"plot", false, set_plot},
    {"no_export", false, set_no_export},
    {"histograms", false, set_histograms},
    {"staleness", true, set_staleness},
    {"ps_wait", true, set_ps_wait},
    {"ps_dir", true, set_ps_dir},
    {"ps_trace", true, set_ps_trace},
    {"ps_listen", true, set_ps_listen},
};

static const struct flag *flag_find(const char *name)
{
    for (size_t i = 0; i < TY_COUNT(FLAGS); i++)
        if (strcmp(FLAGS[i].name, name) == 0)
            return &FLAGS[i];
    return NULL;
}

static bool is_flag(const char *word)
{
    return word[0] == '-' && word[1] == '-';
}

/* The words that belong to a flag: one with "=", else those up to the next flag. */
static int words_of(int argc, char **argv, int at, const char **values, int most)
{
    int count = 0;
    const char *equals = strchr(argv[at], '=');
    if (equals) {
        values[0] = equals + 1;
        return 1;
    }
    while (at + 1 + count < argc && count < most && !is_flag(argv[at + 1 + count])) {
        values[count] = argv[at + 1 + count];
        count++;
    }
    return count;
}

static ty_err setting_add(struct ty_arena *a, struct train_options *o, const char *name,
                          const char **values, int count)
{
    const char *text = "";
    if (o->setting_count == TRAIN_MAX_SETTINGS)
        return ty_fail(TY_INVALID_ARGUMENT, "more than %d parameters", TRAIN_MAX_SETTINGS);
    for (int i = 0; i < count; i++) /* without a value it may be one of the model's ignored flags */
        text = ty_format(a, "%s%s%s", text, i ? " " : "", values[i]);
    o->settings[o->setting_count++] = (struct nn_setting){ty_str_of(name), ty_str_of(text)};
    return TY_OK;
}

static ty_err flag_take(struct ty_arena *a, struct train_options *o, int argc, char **argv, int *at)
{
    const char **values = ty_new_array(a, const char *, (size_t)argc + 1);
    int count = words_of(argc, argv, *at, values, argc);
    bool joined = strchr(argv[*at], '=') != NULL;
    char *name = ty_format(a, "%s", argv[*at] + 2);
    for (char *c = name; *c; c++) {
        if (*c == '=')
            *c = '\0';
        else if (*c == '-')
            *c = '_';
        if (*c == '\0')
            break;
    }
    const struct flag *f = flag_find(name);
    ty_err err = TY_OK;
    if (f == NULL) {
        err = setting_add(a, o, name, values, count);
    } else if (!f->takes_value) {
        count = 0;
        err = f->set(o, NULL);
    } else {
        bool list = f->set == set_train || f->set == set_eval;
        if (count == 0 || values[0][0] == '\0')
            err = ty_fail(TY_INVALID_ARGUMENT, "--%s needs a value", name);
        if (!list && count > 1)
            count = 1;
        for (int i = 0; i < count && err == TY_OK; i++)
            err = f->set(o, values[i]);
    }
    *at += joined ? 0 : count;
    return err;
}

static int say(const char *command, ty_err err)
{
    fflush(stdout);
    fprintf(stderr, "trainyard %s: %s\n", command, ty_err_message());
    if (err == TY_CANCELLED)
        return 128 + (strstr(ty_err_message(), "SIGINT") ? SIGINT : SIGTERM);
    return err == TY_UNAVAILABLE ? TRY_AGAIN : FAILED;
}

/* Is this a later attempt of a job? TRAINYARD_ATTEMPT is JOB/ATTEMPT/... */
static bool is_retried(void)
{
    const char *mark = getenv("TRAINYARD_ATTEMPT"), *attempt = mark ? strchr(mark, '/') : NULL;
    return attempt && strtol(attempt + 1, NULL, 10) > 1;
}

static const char *job_folder(const char *name)
{
    const char *folder = getenv(name);
    return folder && folder[0] ? folder : NULL;
}

/* A job that says where its outputs go has a folder for each kind. The model's is the chief's
 * alone, so what replicas read of each other is not there. */
static void job_outputs(struct ty_arena *a, struct train_options *o)
{
    if (o->output_dir || (o->output_dir = job_folder("AIP_MODEL_DIR")) == NULL)
        return;
    o->checkpoint_dir = job_folder("AIP_CHECKPOINT_DIR");
    o->log_dir = job_folder("AIP_TENSORBOARD_LOG_DIR");
    if (o->ps_dir == NULL && o->checkpoint_dir) {
        bool slash = o->checkpoint_dir[strlen(o->checkpoint_dir) - 1] == '/';
        o->ps_dir = ty_format(a, "%s%sps", o->checkpoint_dir, slash ? "" : "/");
    }
}

int train_command(int argc, char **argv)
{
    struct ty_arena a = {0};
    struct train_options *o = ty_new(&a, struct train_options);
    struct train_result result;
    ty_err err = TY_OK;
    int status = 0;
    o->seed = -1;
    ty_seam_role("train");
    setvbuf(stdout, NULL, _IOLBF, 0); /* in a file its lines keep their order with stderr's */
    for (int i = 0; i < argc && err == TY_OK; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            struct ty_buf b;
            ty_buf_init(&b, 1 << 16);
            train_builtin_list(&b);
            fputs(b.ptr, stdout);
            ty_buf_clear(&b);
            goto out;
        }
        if (is_flag(argv[i]))
            err = flag_take(&a, o, argc, argv, &i);
        else if (o->model == NULL)
            o->model = argv[i];
        else
            err = ty_fail(TY_INVALID_ARGUMENT, "what is '%s'? Flags begin with --", argv[i]);
    }
    if (err == TY_OK && o->model == NULL)
        err = ty_fail(TY_INVALID_ARGUMENT, "which model? NAME of 'trainyard train --list', or "
                                           "--model-file FILE");
    if (err != TY_OK) {
        say("train", err);
        fputs("See trainyard train --help\n", stderr);
        status = USAGE;
        goto out;
    }
    job_outputs(&a, o);
    if (o->resume && o->output_dir == NULL) {
        fputs("trainyard train: --resume needs the --output_dir that has the checkpoints\n",
              stderr);
        status = USAGE;
        goto out;
    }
    o->resume |= is_retried();
    o->tf_config = getenv("TF_CONFIG");
    err = train_run(o, &result);
    if (err != TY_OK)
        status = say("train", err);
    else if (!o->quiet && result.examples_per_second > 0) /* of the chief */
        printf("%.0f examples/s over %" PRId64 " steps\n", result.examples_per_second,
               result.steps);
out:
    ty_arena_clear(&a);
    return status;
}

/* ---- predict ---- */

int train_predict_command(int argc, char **argv)
{
    const char *model = NULL;
    const char **paths = calloc((size_t)argc + 1, sizeof *paths);
    size_t count = 0;
    ty_err err = TY_OK;
    ty_assert(paths);
    for (int i = 0; i < argc && err == TY_OK; i++) {
        if (strncmp(argv[i], "--model=", 8) == 0)
            model = argv[i] + 8;
        else if (strcmp(argv[i], "--model") == 0 && i + 1 < argc)
            model = argv[++i];
        else if (is_flag(argv[i]))
            err = ty_fail(TY_INVALID_ARGUMENT, "what is '%s'?", argv[i]);
        else
            paths[count++] = argv[i];
    }
    if (err == TY_OK && (model == NULL || count == 0))
        err = ty_fail(TY_INVALID_ARGUMENT, "usage: trainyard predict --model DIR FILE|- ...");
    int status = USAGE;
    if (err == TY_OK) {
        err = train_predict(model, paths, count, 0, STDOUT_FILENO);
        status = FAILED;
    }
    free(paths);
    if (err == TY_OK)
        return 0;
    say("predict", err);
    return status;
}

int train_show_command(int argc, char **argv)
{
    struct ty_buf b;
    if (argc != 1 || is_flag(argv[0])) {
        fputs("usage: trainyard model show DIR\n", stderr);
        return USAGE;
    }
    ty_buf_init(&b, 1 << 20);
    ty_err err = train_show(argv[0], &b);
    if (err == TY_OK)
        fputs(b.ptr, stdout);
    ty_buf_clear(&b);
    return err == TY_OK ? 0 : say("model show", err);
}

/* test_container.c -- command lines, names of images, and the life of a container with an engine
 * that is a shell script.
 *
 * The script does what its files in $FAKE tell it, and writes its words to $FAKE/calls. A real
 * podman is in tests/clients/test_containers.py. */
#define TY_SEAM
#include "base/test.h"
#include "container/container_int.h"

static struct ty_arena arena;
static char fake[64]; /* the folder of the script and its files; also the data folder */

static const char script[] =
    "#!/bin/sh\n"
    "echo \"$*\" >>$FAKE/calls\n"
    "for w; do case $w in --cidfile=*) cid=${w#--cidfile=};; esac; done\n"
    "case \"$1 $2\" in run*) case \"$*\" in *--rootfs*) echo no cgroups $(grep -c rootfs "
    "$FAKE/calls) >&2\n"
    "  exit $(cat $FAKE/probe);; esac;; esac\n"
    "case \"$1 $2\" in\n"
    "'version --format') [ -e $FAKE/no-daemon ] && { echo 'Cannot connect' >&2; exit 1; }\n"
    "  echo warning >&2; echo 28.0;;\n"
    "'info --format') echo true true;;\n"
    "'image inspect') [ -e $FAKE/image ] || exit 1; cat $FAKE/image;;\n"
    "pull*) echo pulling; [ -e $FAKE/registry ] && cp $FAKE/registry $FAKE/image;;\n"
    "run*) echo c0ffee >$cid; . $FAKE/program; exit;;\n"
    "inspect*) cat $FAKE/started;;\n"
    "kill*) [ -e $FAKE/pid ] && kill -TERM $(cat $FAKE/pid);;\n"
    "ps*) cat $FAKE/left 2>/dev/null; exit 0;;\n"
    "rm*) [ -e $FAKE/stuck ] && exit 1; rm -f $FAKE/left; exit 0;;\n"
    "esac\n";

/* ---- the fake ---- */

static const char *path_of(const char *name)
{
    return ty_format(&arena, "%s/%s", fake, name);
}

static void put(const char *name, const char *text)
{
    assert_ok(ty_file_replace(AT_FDCWD, path_of(name), ty_str_of(text), 0755));
}

static const char *get(const char *name)
{
    ty_str text = {0};
    ty_err err = ty_file_read(AT_FDCWD, path_of(name), 1 << 20, &arena, &text);
    return err == TY_OK ? ty_cstr(&arena, text) : "";
}

static bool is_there(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static int fake_open(void **state)
{
    (void)state;
    snprintf(fake, sizeof fake, "/tmp/ty-container-XXXXXX");
    assert_non_null(mkdtemp(fake));
    setenv("FAKE", fake, 1);
    put("docker", script);
    assert_ok(ty_mkdirs(path_of("jobs/7/1/0-0"), 0700));
    return 0;
}

static int fake_close(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    assert_ok(ty_remove_tree(AT_FDCWD, fake));
    ty_arena_clear(&arena);
    return 0;
}

static struct container_engine engine_of(enum container_kind kind)
{
    return (struct container_engine){.kind = kind,
                                     .path = path_of("docker"),
                                     .version = "1",
                                     .limits = true,
                                     .options = {"--log-driver=none"}};
}

static struct container job_of(const char *image)
{
    return (struct container){
        .image = image, .data_dir = fake, .job_id = 7, .attempt = 1, .pool = 0, .index = 0};
}

/* ---- command lines ---- */

/* All words with a space between them, without those that every container has. */
static const char *line_of(const struct container_engine *e, const struct container *c,
                           const char *image_path)
{
    struct container_call call;
    struct ty_buf b;
    ty_buf_init(&b, 65536);
    assert_ok(container_argv(&arena, e, c, image_path, &call));
    for (size_t i = 1; call.argv[i]; i++)
        if (strncmp(call.argv[i], "--shm-size=", 11) != 0)
            ty_buf_addf(&b, "%s%s", i > 1 ? " " : "", call.argv[i]);
    const char *line = ty_cstr(&arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    return line;
}

static void image_alone(void **state)
{
    (void)state;
    struct container_engine e = engine_of(CONTAINER_PODMAN);
    struct container c = job_of("gcr.io/p/x:1");
    assert_string_equal(
        line_of(&e, &c, ""),
        ty_format(&arena,
                  "run --sig-proxy=false --network=host --cidfile=../0-0.cid --log-driver=none "
                  "--label=trainyard.data=%s --label=trainyard.job=7 --label=trainyard.attempt=1 "
                  "--label=trainyard.replica=0-0 gcr.io/p/x:1",
                  fake));
}

static void assert_ends(const char *line, const char *end)
{
    if (!ty_str_ends(ty_str_of(line), ty_str_of(end)))
        fail_msg("'%s' does not end with '%s'", line, end);
}

static void command_replaces_entry_point(void **state)
{
    (void)state;
    struct container_engine e = engine_of(CONTAINER_PODMAN);
    struct container c = job_of("x");
    c.args = (char *[]){"--a", "b c", NULL};
    assert_ends(line_of(&e, &c, ""), "=0-0 x --a b c");
    c.command = (char *[]){"python", "-m", "t", NULL};
    assert_ends(line_of(&e, &c, ""), "=0-0 --entrypoint=python x -m t --a b c");
    c.args = (char *[]){NULL};
    assert_ends(line_of(&e, &c, ""), "=0-0 --entrypoint=python x -m t");
}

static void limits_where_they_work(void **state)
{
    (void)state;
    struct container_engine e = engine_of(CONTAINER_PODMAN);
    struct container c = job_of("x");
    c.cpu_milli = 1500;
    c.memory_bytes = 1 << 30;
    assert_ends(line_of(&e, &c, ""), "=0-0 --memory=1073741824 --cpu-shares=1536 x");
    c.cpu_milli = 1;
    assert_ends(line_of(&e, &c, ""), "--cpu-shares=2 x");
    c.cpu_milli = INT64_MAX;
    assert_ends(line_of(&e, &c, ""), "--cpu-shares=262144 x");
    e.limits = false;
    assert_ends(line_of(&e, &c, ""), "=0-0 x");
    c.gpus = true;
    assert_ends(line_of(&e, &c, ""), " --device=nvidia.com/gpu=all x");
    e.kind = CONTAINER_DOCKER;
    assert_ends(line_of(&e, &c, ""), " --gpus=all x");
}

static void paths_with_odd_names(void **state)
{
    (void)state;
    struct container_engine e = engine_of(CONTAINER_PODMAN);
    struct container c = job_of("x");
    struct container_call call;
    struct container_mount mounts[] = {
        {"/a", "/a", false}, {"/b", "/gcs/b", true}, {"/c:1", "/c:1", true}, {"/d,1", "/d", false}};
    c.mounts = mounts;
    c.mount_count = TY_COUNT(mounts);
    assert_ends(line_of(&e, &c, ""),
                "--volume=/a:/a --volume=/b:/gcs/b:ro "
                "--mount=type=bind,source=/c:1,target=/c:1,readonly --volume=/d,1:/d x");
    mounts[0].from = "/e:1,2";
    assert_err(TY_INVALID_ARGUMENT, container_argv(&arena, &e, &c, "", &call));
}

static void python_path_goes_before_the_images(void **state)
{
    (void)state;
    struct container_engine e = engine_of(CONTAINER_PODMAN);
    struct container c = job_of("x");
    struct container_call call;
    c.env = (char *[]){"A=1 2", NULL};
    assert_ok(container_argv(&arena, &e, &c, "/app", &call));
    assert_true(ty_str_is(call.env_file, "A=1 2\n"));
    c.python_path = "/ours";
    assert_ok(container_argv(&arena, &e, &c, "", &call));
    assert_true(ty_str_is(call.env_file, "A=1 2\nPYTHONPATH=/ours\n"));
    assert_ok(container_argv(&arena, &e, &c, "/app", &call));
    assert_true(ty_str_is(call.env_file, "A=1 2\nPYTHONPATH=/ours:/app\n"));
}

/* Everybody on the machine can read a command line. */
static void no_value_is_on_the_command_line(void **state)
{
    (void)state;
    struct container_engine e = engine_of(CONTAINER_PODMAN);
    struct container c = job_of("x");
    struct container_call call;
    assert_ends(line_of(&e, &c, ""), "=0-0 x"); /* no environment, no file */
    c.env = (char *[]){"KEY=secret",   "EMPTY=", "TWO=secret\nsecret", "JSON={\"a\":1}", "END= ",
                       "UTF=\xc3\xa4", NULL};
    assert_ends(line_of(&e, &c, ""),
                "=0-0 --env=TWO --env=JSON --env=END --env=UTF --env-file=../0-0.env x");
    assert_ok(container_argv(&arena, &e, &c, "", &call));
    assert_true(ty_str_is(call.env_file, "KEY=secret\nEMPTY=\n"));
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(call.client_env[i], c.env[i + 2]);
    assert_null(call.client_env[4]);
}

/* ---- names ---- */

static void image_names(void **state)
{
    (void)state;
    static const char *const good[] = {"x", "gcr.io/p/x:1.2", "localhost:5000/a_b/c-d@sha256:00ff"};
    static const char *const bad[] = {"", "-v", "--x", "a b", "a\n", "/a", "a=b", "a*", "\xc3\xa4"};
    for (size_t i = 0; i < TY_COUNT(good); i++)
        assert_true(container_image_is_valid(ty_str_of(good[i])));
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        assert_false(container_image_is_valid(ty_str_of(bad[i])));
    char *longest = ty_alloc(&arena, 2000);
    memset(longest, 'a', 1500);
    assert_false(container_image_is_valid(ty_str_of(longest)));
}

static void first_pattern_wins(void **state)
{
    (void)state;
    static const char rules[] = "gcr.io/d/tf2-cpu.*=localhost/tf:1 \t gcr.io/*/*:old=b *x*y*=c";
    static const struct {
        const char *asked, *used;
    } cases[] = {
        {"gcr.io/d/tf2-cpu.2-12:latest", "localhost/tf:1"},
        {"gcr.io/d/tf2-cpu.:old", "localhost/tf:1"},
        {"gcr.io/d/tf2-gpu.2-12", "gcr.io/d/tf2-gpu.2-12"},
        {"gcr.io/p/q/r:old", "b"},
        {"gcr.io/p:old", "gcr.io/p:old"},
        {"axxyby", "c"},
        {"ayx", "ayx"},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++)
        assert_string_equal(container_image_replace(&arena, rules, ty_str_of(cases[i].asked)),
                            cases[i].used);
    assert_string_equal(container_image_replace(&arena, "", TY_STR("x")), "x");
}

static void rules_are_checked(void **state)
{
    (void)state;
    assert_ok(container_rules_check(""));
    assert_ok(container_rules_check("a*=b c=d:1"));
    assert_err(TY_INVALID_ARGUMENT, container_rules_check("a"));
    assert_err(TY_INVALID_ARGUMENT, container_rules_check("a=b =c"));
    assert_err(TY_INVALID_ARGUMENT, container_rules_check("a=-v"));
    assert_non_null(strstr(ty_err_message(), "'a=-v'"));
}

/* ---- the engine ---- */

static size_t count_calls(const char *word)
{
    size_t n = 0;
    ty_str text = ty_str_of(get("calls")), line;
    while (text.len > 0) {
        ty_str_split(&text, '\n', &line);
        n += ty_str_starts(line, ty_str_of(word));
    }
    return n;
}

static void engine_is_kept(void **state)
{
    (void)state;
    struct container_engine e;
    for (int i = 0; i < 3; i++) {
        assert_ok(container_engine_find(&arena, path_of("docker"), fake, &e));
        assert_int_equal(e.kind, CONTAINER_DOCKER);
        assert_string_equal(e.version, "28.0");
        assert_string_equal(e.options[0], "--log-driver=none");
        assert_null(e.options[1]);
        assert_true(e.limits);
    }
    assert_int_equal(count_calls("version"), 1);
    put("docker", ty_format(&arena, "%s# another one\n", script));
    assert_ok(container_engine_find(&arena, path_of("docker"), fake, &e));
    assert_int_equal(count_calls("version"), 2);
    put("engine", "trainyard engine 1\n");
    assert_ok(container_engine_find(&arena, path_of("docker"), fake, &e));
    assert_int_equal(count_calls("version"), 3);
}

static void engine_that_does_not_answer(void **state)
{
    (void)state;
    struct container_engine e;
    put("no-daemon", "");
    assert_err(TY_FAILED_PRECONDITION, container_engine_find(&arena, path_of("docker"), fake, &e));
    assert_non_null(strstr(ty_err_message(), "it does not answer (Cannot connect)"));
    assert_false(is_there("engine"));
    unlink(path_of("no-daemon")); /* it is started: no restart of ours is needed */
    assert_ok(container_engine_find(&arena, path_of("docker"), fake, &e));
    assert_err(TY_FAILED_PRECONDITION, container_engine_find(&arena, "none", fake, &e));
    assert_err(TY_FAILED_PRECONDITION, container_engine_find(&arena, "kvm", fake, &e));
    assert_err(TY_FAILED_PRECONDITION, container_engine_find(&arena, "/no/podman", fake, &e));
    assert_non_null(strstr(ty_err_message(), "/no/podman is not installed"));
}

/* Trying all its ways takes long: not for each job that is refused. */
static void podman_that_is_refused_is_kept(void **state)
{
    (void)state;
    struct container_engine e;
    put("podman", script);
    put("probe", "125");
    for (int i = 0; i < 3; i++) {
        assert_err(TY_FAILED_PRECONDITION,
                   container_engine_find(&arena, path_of("podman"), fake, &e));
        assert_non_null(strstr(ty_err_message(), "it cannot start a container (no cgroups 1)"));
    }
    size_t tries = count_calls("run");
    assert_true(tries > 1);
    put("probe", "127");
    assert_err(TY_FAILED_PRECONDITION, container_engine_find(&arena, path_of("podman"), fake, &e));
    assert_int_equal(count_calls("run"), tries);
    container_engine_retry(fake);
    assert_ok(container_engine_find(&arena, path_of("podman"), fake, &e));
    assert_int_equal(count_calls("run"), tries + 1);
    assert_true(is_there("engine"));
}

static void refusal_does_not_last(void **state)
{
    (void)state;
    struct container_engine e;
    struct timespec old[2] = {{.tv_sec = time(NULL) - 601}, {.tv_sec = time(NULL) - 601}};
    put("podman", script);
    put("probe", "125");
    assert_err(TY_FAILED_PRECONDITION, container_engine_find(&arena, path_of("podman"), fake, &e));
    put("probe", "127");
    assert_int_equal(utimensat(AT_FDCWD, path_of("engine-refused"), old, 0), 0);
    assert_ok(container_engine_find(&arena, path_of("podman"), fake, &e));
}

/* Who has it need not install it. */
static void advice_is_of_what_is_there(void **state)
{
    (void)state;
    assert_non_null(
        strstr(container_engine_advice(&arena, path_of("docker")), "is installed, but"));
    assert_non_null(strstr(container_engine_advice(&arena, "/no/docker"), "apt install podman"));
    assert_non_null(strstr(container_engine_advice(&arena, "none"), "apt install podman"));
}

static void call_that_hangs_is_ended(void **state)
{
    (void)state;
    struct call c;
    const char *argv[] = {"sh", "-c", "echo some; echo words >&2; sleep 1000", NULL};
    assert_err(TY_DEADLINE_EXCEEDED, call_run(&c, argv, 300));
    assert_string_equal(c.out.ptr, "some\n");
    assert_string_equal(call_reason(&arena, &c), "words");
    call_clear(&c);
    const char *nothing[] = {"/no/such/program", NULL};
    assert_err(TY_NOT_FOUND, call_run(&c, nothing, 300));
    call_clear(&c);
}

/* ---- images in the engine ---- */

static const struct container_wanted wanted = {.pool = 0, .asked = "a:1", .used = "a:1"};

static ty_err prepare(void)
{
    fflush(stdout);
    int kept = dup(STDOUT_FILENO), fd = open(path_of("said"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDOUT_FILENO);
    close(fd);
    ty_err err = container_prepare(path_of("docker"), fake, path_of("jobs/7/1"), &wanted, 1);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    return err;
}

static void image_that_is_there_is_not_pulled(void **state)
{
    (void)state;
    put("image", "PATH=/bin\nPYTHONPATH=/app:/lib\n");
    assert_ok(prepare());
    assert_int_equal(count_calls("pull"), 0);
    assert_string_equal(get("said"), "");
    assert_string_equal(get("jobs/7/1/image-0"), "/app:/lib");
    assert_true(is_there("jobs/7/1/engine"));
}

static void image_that_is_not_there_is_pulled(void **state)
{
    (void)state;
    put("registry", "PATH=/bin\n");
    assert_ok(prepare());
    assert_string_equal(get("said"),
                        "The image a:1 is not in docker on this machine: pulling it.\npulling\n");
    assert_string_equal(get("jobs/7/1/image-0"), "");
}

static void image_that_is_nowhere(void **state)
{
    (void)state;
    assert_err(TY_FAILED_PRECONDITION, prepare());
    assert_non_null(strstr(ty_err_message(), "docker build -t a:1 ."));
}

/* ---- a container's life ---- */

static int64_t memory_bytes; /* the limit of the next one; 0: none */

/* container_run in a process of its own, in the replica's folder; its stderr is in `err`. */
static pid_t start(const char *program)
{
    struct container_engine e = engine_of(CONTAINER_DOCKER);
    int dirfd = open(path_of("jobs/7/1"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_ok(engine_write(dirfd, &e, ""));
    close(dirfd);
    put("jobs/7/1/image-0", "");
    put("program", program);
    put("engine", "kept");
    fflush(stdout);
    pid_t pid = ty_fork();
    if (pid == 0) {
        struct container c = job_of("a:1");
        c.command = (char *[]){"trainer", NULL};
        c.memory_bytes = memory_bytes;
        c.env = (char *[]){"KEY=secret", "TWO=1\n2", NULL};
        if (chdir(path_of("jobs/7/1/0-0")) != 0 || !freopen(path_of("err"), "w", stderr))
            _exit(99);
        setenv("TRAINYARD_ATTEMPT", "7/1", 1);
        int status = container_run(&c);
        fflush(stderr);
        _exit(WIFSIGNALED(status) ? 200 + WTERMSIG(status) : WEXITSTATUS(status));
    }
    return pid;
}

static int finish(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* One call of the engine removes it. */
static void assert_swept(void)
{
    unlink(path_of("calls"));
    assert_true(is_there("jobs/7/1/0-0.container"));
    assert_true(container_sweep(fake, 7, 1, 10000));
    assert_string_equal(get("calls"), "rm --force --volumes c0ffee\n");
    assert_false(is_there("jobs/7/1/0-0.container"));
    assert_false(is_there("jobs/7/1/0-0.cid"));
}

static void statuses_are_the_programs(void **state)
{
    (void)state;
    static const struct {
        const char *program;
        int status;
    } cases[] = {{"exit 0", 0},     {"exit 3", 3},     {"exit 124", 124}, {"exit 128", 128},
                 {"exit 137", 209}, {"exit 143", 215}, {"exit 255", 255}, {"kill -9 $$", 209}};
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        assert_int_equal(finish(start(cases[i].program)), cases[i].status);
        assert_swept();
        assert_string_equal(get("err"), "");
    }
}

static void engines_statuses_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *words;
    } cases[] = {{125, "docker could not start a container of image a:1"},
                 {126, "'trainer' of image a:1 cannot be run"},
                 {127, "command not found in image: 'trainer' is not in a:1"}};
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        const char *program = ty_format(&arena, "exit %d", cases[i].status);
        put("started", "false 2026-01-01T00:00:00Z\n");
        assert_int_equal(finish(start(program)), cases[i].status);
        assert_string_equal(get("err"), "");
        assert_true(is_there("engine"));
        put("started", "false 0001-01-01T00:00:00Z\n");
        assert_int_equal(finish(start(program)), cases[i].status);
        assert_non_null(strstr(get("err"), cases[i].words));
        assert_int_equal(is_there("engine"), cases[i].status == 127); /* tried anew, or as it was */
    }
}

/* The engine is asked where there is a limit, after a bad end. */
static void kill_for_memory_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *program, *answer;
        int64_t memory_bytes;
        bool told;
    } cases[] = {{"exit 137", "true 2026-01-01T00:00:00Z\n", 1 << 30, true},
                 {"exit 1", "true 2026-01-01T00:00:00Z\n", 1 << 30, true},
                 {"exit 137", "false 2026-01-01T00:00:00Z\n", 1 << 30, false},
                 {"exit 137", "true 2026-01-01T00:00:00Z\n", 0, false},
                 {"exit 0", "true 2026-01-01T00:00:00Z\n", 1 << 30, false}};
    int dirfd = open(path_of("jobs/7/1"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < TY_COUNT(cases); i++) { /* each a next life of the same replica */
        put("started", cases[i].answer);
        memory_bytes = cases[i].memory_bytes;
        (void)finish(start(cases[i].program));
        assert_int_equal(container_oom_told(dirfd, 0, 0), cases[i].told);
    }
    memory_bytes = 0;
    assert_true(container_limits_hold(dirfd));
    close(dirfd);
}

static void client_has_no_marks(void **state)
{
    (void)state;
    assert_int_equal(finish(start("echo \"[$TRAINYARD_ATTEMPT]\" >$FAKE/mark; exit 0")), 0);
    assert_string_equal(get("mark"), "[]\n");
}

static void environment_is_in_a_file_of_ours(void **state)
{
    (void)state;
    static const char program[] = "stat -c %a ../0-0.env >$FAKE/mode; cat ../0-0.env >$FAKE/file\n"
                                  "echo \"$TWO\" >$FAKE/two; exit 0";
    assert_int_equal(finish(start(program)), 0);
    assert_string_equal(get("mode"), "600\n");
    assert_string_equal(get("file"), "KEY=secret\n");
    assert_string_equal(get("two"), "1\n2\n");
    assert_null(strstr(get("calls"), "secret"));
    assert_false(is_there("jobs/7/1/0-0.env"));
}

static void sigterm_is_passed_on_once(void **state)
{
    (void)state;
    pid_t pid =
        start("trap 'echo term >>$FAKE/terms' TERM\n"
              "echo $$ >$FAKE/pid.new; mv $FAKE/pid.new $FAKE/pid\n"
              "n=0; while [ ! -e $FAKE/terms ] || [ $n -lt 10 ]; do sleep 0.05; n=$((n+1)); "
              "done\nexit 5\n");
    while (!is_there("pid"))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    kill(pid, SIGTERM);
    assert_int_equal(finish(pid), 5);
    assert_string_equal(get("terms"), "term\n");
    assert_swept();
}

static void client_dies_with_its_parent(void **state)
{
    (void)state;
    pid_t pid = start("echo $$ >$FAKE/pid.new; mv $FAKE/pid.new $FAKE/pid; exec sleep 1000");
    int64_t client;
    while (!is_there("pid"))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    assert_ok(ty_parse_i64(ty_str_trim(ty_str_of(get("pid"))), &client));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (int i = 0; i < 500 && kill((pid_t)client, 0) == 0; i++) {
        const char *stat = get(ty_format(&arena, "../../proc/%d/stat", (int)client));
        if (strstr(stat, ") Z"))
            break;
        assert_true(i < 499);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    assert_swept();
}

static void next_life_removes_the_one_before(void **state)
{
    (void)state;
    assert_int_equal(finish(start("exit 0")), 0);
    assert_int_equal(finish(start("exit 0")), 0);
    assert_int_equal(count_calls("rm --force --volumes c0ffee"), 1);
    put("stuck", "");
    assert_int_equal(finish(start("exit 0")), 125);
    assert_non_null(strstr(get("err"), "docker does not remove the one before"));
}

/* The client was killed before it wrote an id: only labels are known. */
static void sweep_without_an_id_goes_by_labels(void **state)
{
    (void)state;
    assert_int_equal(finish(start("rm $cid; echo c0ffee >$FAKE/left; exit 0")), 0);
    unlink(path_of("calls"));
    assert_true(container_sweep(fake, 7, 1, 10000));
    const char *list = ty_format(&arena,
                                 "ps --all --quiet --no-trunc --filter=label=trainyard.data=%s "
                                 "--filter=label=trainyard.job=7 "
                                 "--filter=label=trainyard.attempt=1\n",
                                 fake);
    assert_string_equal(get("calls"),
                        ty_format(&arena, "%srm --force --volumes c0ffee\n%s%s", list, list, list));
    assert_false(is_there("jobs/7/1/0-0.container"));
}

static void sweep_without_containers_starts_nothing(void **state)
{
    (void)state;
    assert_true(container_sweep(fake, 7, 1, 1000));
    assert_true(container_sweep(fake, 8, 1, 1000)); /* no such folder */
    assert_false(is_there("calls"));
}

static void sweep_that_fails_says_so(void **state)
{
    (void)state;
    assert_int_equal(finish(start("touch $FAKE/stuck; echo c0ffee >$FAKE/left; exit 0")), 0);
    assert_true(is_there("jobs/7/1/0-0.container"));
    assert_false(container_sweep(fake, 7, 1, 300));
    assert_true(is_there("jobs/7/1/0-0.container"));
    unlink(path_of("stuck"));
    assert_true(container_sweep(fake, 7, 1, 10000));
    assert_false(is_there("jobs/7/1/0-0.container"));
}

#define CASE(name_, fn_)                                                                           \
    {                                                                                              \
        .name = (name_), .test_func = (fn_), .setup_func = fake_open, .teardown_func = fake_close  \
    }
static const struct CMUnitTest tests[] = {
    CASE("argv/image_alone", image_alone),
    CASE("argv/command_replaces_entry_point", command_replaces_entry_point),
    CASE("argv/limits_where_they_work", limits_where_they_work),
    CASE("argv/paths_with_odd_names", paths_with_odd_names),
    CASE("argv/python_path_goes_before_the_images", python_path_goes_before_the_images),
    CASE("argv/no_value_is_on_the_command_line", no_value_is_on_the_command_line),
    CASE("image/names", image_names),
    CASE("image/first_pattern_wins", first_pattern_wins),
    CASE("image/rules_are_checked", rules_are_checked),
    CASE("engine/is_kept", engine_is_kept),
    CASE("engine/does_not_answer", engine_that_does_not_answer),
    CASE("engine/refused_is_kept", podman_that_is_refused_is_kept),
    CASE("engine/refusal_does_not_last", refusal_does_not_last),
    CASE("engine/advice_is_of_what_is_there", advice_is_of_what_is_there),
    CASE("engine/call_that_hangs_is_ended", call_that_hangs_is_ended),
    CASE("prepare/image_there", image_that_is_there_is_not_pulled),
    CASE("prepare/image_pulled", image_that_is_not_there_is_pulled),
    CASE("prepare/image_nowhere", image_that_is_nowhere),
    CASE("run/statuses_are_the_programs", statuses_are_the_programs),
    CASE("run/engines_statuses_are_told_apart", engines_statuses_are_told_apart),
    CASE("run/kill_for_memory_is_told", kill_for_memory_is_told),
    CASE("run/client_has_no_marks", client_has_no_marks),
    CASE("run/environment_is_in_a_file_of_ours", environment_is_in_a_file_of_ours),
    CASE("run/sigterm_is_passed_on_once", sigterm_is_passed_on_once),
    CASE("run/client_dies_with_its_parent", client_dies_with_its_parent),
    CASE("run/next_life_removes_the_one_before", next_life_removes_the_one_before),
    CASE("sweep/by_labels", sweep_without_an_id_goes_by_labels),
    CASE("sweep/nothing_to_do", sweep_without_containers_starts_nothing),
    CASE("sweep/failure_is_told", sweep_that_fails_says_so),
};
TEST_MAIN("container", tests)

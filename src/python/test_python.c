/* test_python.c -- what an image stands for, names, and the folders of runtimes.
 *
 * Making environments for real takes pip: tests/clients/test_packages.py does it. */
#include "base/test.h"
#include "python/python_int.h"

static const struct python_host debian = {"/usr/bin/python3.11", "3.11.2", 11};

static void runtime_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *image, *family, *requirement;
        bool gpu, exact;
    } rows[] = {
        {"us-docker.pkg.dev/vertex-ai/training/tf-gpu.2-12.py310:latest", "tf",
         "tensorflow-cpu==2.12.1", true, true},
        {"gcr.io/cloud-aiplatform/training/tf-cpu.2-15", "tf", "tensorflow-cpu==2.15.1", false,
         true},
        {"europe-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17.py310@sha256:00", "tf",
         "tensorflow-cpu==2.17.1", false, true},
        {"pytorch-gpu.1-13.py310", "pytorch", "torch==1.13.1", true, true},
        {"r.example:5000/x/sklearn-cpu.1-0", "sklearn", "scikit-learn==1.2.2", false, false},
        {"xgboost-cpu.1-1", "xgboost", "xgboost==1.7.6", false, false},
    };
    struct ty_arena a = {0};
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct python_runtime r;
        assert_ok(python_image_check(ty_str_of(rows[i].image)));
        assert_ok(python_runtime_find(&a, ty_str_of(rows[i].image), &debian, &r));
        assert_string_equal(r.family, rows[i].family);
        assert_string_equal(r.requirements[1], rows[i].requirement);
        assert_int_equal(r.gpu, rows[i].gpu);
        assert_int_equal(r.exact, rows[i].exact);
        assert_int_equal(strlen(r.key), 64);
    }
    ty_arena_clear(&a);
}

static void nearest_version_is_used(void **state)
{
    (void)state;
    static const struct {
        const char *image;
        int minor;
        const char *requirement;
    } rows[] = {
        {"tf-cpu.2-3", 11, "tensorflow-cpu==2.12.1"},  /* newer, the nearest */
        {"tf-cpu.1-15", 11, "tensorflow-cpu==2.15.1"}, /* another major: stood in for */
        {"tf-cpu.2-3", 9, "tensorflow-cpu==2.8.4"},    /* by the host's Python */
        {"tf-cpu.2-12", 12, "tensorflow-cpu==2.16.2"}, /* none for 3.12 before that */
        {"tf-cpu.2-99", 11, "tensorflow-cpu==2.20.0"}, /* nothing newer: the newest */
        {"tf-gpu.2-9", 10, "tensorflow-cpu==2.9.3"},
    };
    struct ty_arena a = {0};
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct python_host host = {"/usr/bin/python3", "3.x.0", rows[i].minor};
        struct python_runtime r;
        assert_ok(python_runtime_find(&a, ty_str_of(rows[i].image), &host, &r));
        assert_string_equal(r.requirements[1], rows[i].requirement);
    }
    struct python_host new_python = {"/usr/bin/python3", "3.40.0", 40};
    struct python_runtime r;
    assert_err(TY_FAILED_PRECONDITION,
               python_runtime_find(&a, TY_STR("tf-cpu.2-3"), &new_python, &r));
    ty_arena_clear(&a);
}

static void pytorch_and_its_numpy(void **state)
{
    (void)state;
    static const struct {
        const char *image, *requirement, *next;
    } rows[] = {
        {"pytorch-gpu.1-9", "torch==1.13.1",
         "numpy<2"}, /* made before numpy 2, and not saying so */
        {"pytorch-cpu.2-1.py310", "torch==2.1.2", "numpy<2"},
        {"pytorch-xla.2-4", "torch==2.4.1", "pandas"},
        {"sklearn-cpu.0-23", "scikit-learn==1.2.2", "numpy<2"},
    };
    struct ty_arena a = {0};
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct python_runtime r;
        assert_ok(python_runtime_find(&a, ty_str_of(rows[i].image), &debian, &r));
        assert_string_equal(r.requirements[1], rows[i].requirement);
        assert_string_equal(r.requirements[2], rows[i].next);
    }
    ty_arena_clear(&a);
}

static void legacy_versions(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    const char *image = NULL;
    assert_ok(python_legacy_image(&a, TY_STR("2.8"), false, &image));
    assert_string_equal(image, "tf-cpu.2-8");
    assert_ok(python_legacy_image(&a, TY_STR("2.11"), true, &image));
    assert_string_equal(image, "tf-gpu.2-11");
    assert_ok(python_image_check(ty_str_of(image)));
    assert_ok(python_legacy_image(&a, TY_STR("1.15"), false, &image));
    assert_string_equal(image, "tf-cpu.1-15");
    assert_err(TY_INVALID_ARGUMENT, python_legacy_image(&a, TY_STR("3.0"), false, &image));
    assert_non_null(strstr(ty_err_message(), "TensorFlow 3"));
    static const char *const bad[] = {"",      "2",    "2.",   ".8",    "2.x",
                                      "2.8.1", "-2.8", "2.-8", "2.1234"};
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        assert_err(TY_INVALID_ARGUMENT, python_legacy_image(&a, ty_str_of(bad[i]), false, &image));
        assert_non_null(strstr(ty_err_message(), "MAJOR.MINOR"));
    }
    ty_arena_clear(&a);
}

/* ---- texts of packaging ---- */

static void requirements_are_cut(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name, *bare;
        bool special;
    } rows[] = {
        {"tensorflow>=2.3", "tensorflow", "tensorflow>=2.3", false},
        {" a_b.C (>=1) ; python_version > '3'", "a_b.C", "a_b.C (>=1)", false},
        {"x[y,z]>=1", "x", "x[y,z]>=1", true},
        {"x [y] ; extra == 'z'", "x", "x [y]", true},
        {"x @ file:///a/b.whl", "x", "x @ file:///a/b.whl", true},
        {"", "", "", false},
        {";", "", "", false},
        {"==1", "", "==1", false},
    };
    struct ty_arena a = {0};
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        ty_str text = ty_str_of(rows[i].text);
        assert_true(ty_str_is(requirement_name(text), rows[i].name));
        assert_true(ty_str_is(requirement_bare(text), rows[i].bare));
        assert_int_equal(requirement_is_special(text), rows[i].special);
    }
    assert_string_equal(name_normal(&a, TY_STR("Foo._-Bar.baz")), "foo-bar-baz");
    ty_arena_clear(&a);
}

static void metadata_is_read(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct words requires = {.a = &a};
    struct metadata m = {.requires = &requires};
    assert_ok(metadata_parse(&a,
                             TY_STR("Metadata-Version: 2.1\nName: My_Trainer\r\nVersion: 1\n"
                                    "Requires-Dist: numpy (>=1)\nrequires-dist: x ;\n"
                                    "   python_version > '3'\nKeywords: a\n b\n\n"
                                    "Requires-Dist: not-a-header\n"),
                             &m));
    assert_string_equal(m.name, "my-trainer");
    assert_int_equal(requires.count, 2);
    assert_string_equal(requires.list[0], "numpy (>=1)");
    assert_string_equal(requires.list[1], "x ; python_version > '3'");
    assert_err(TY_DATA_LOSS, metadata_parse(&a, TY_STR(""), &m));
    assert_err(TY_DATA_LOSS, metadata_parse(&a, TY_STR("Name: \0x\nName: a b\n"), &m));
    assert_err(TY_DATA_LOSS, metadata_parse(&a, TY_STR("\nName: late\n"), &m));
    ty_arena_clear(&a);
}

static void complaints_are_read(void **state)
{
    (void)state;
    struct complaint c;
    assert_true(
        complaint_parse(TY_STR("trainer 0.1 requires ty-helper, which is not installed."), &c));
    assert_true(ty_str_is(c.owner, "trainer") && ty_str_is(c.requirement, "ty-helper"));
    assert_int_equal(c.have.len, 0);
    assert_true(complaint_parse(TY_STR("trainer 0.1 has requirement a<2,>=1; python_version > '3', "
                                       "but you have A 2.0.1."),
                                &c));
    assert_true(ty_str_is(c.requirement, "a<2,>=1; python_version > '3'"));
    assert_true(ty_str_is(c.have, "2.0.1"));
    static const char *const others[] = {"",
                                         "No broken requirements found.",
                                         "a 1 is not supported on this platform",
                                         "a 1 requires , which is not installed.",
                                         "a 1 has requirement b, but you have b",
                                         "a 1 has requirement b"};
    for (size_t i = 0; i < TY_COUNT(others); i++)
        assert_false(complaint_parse(ty_str_of(others[i]), &c));
}

static void build_system_is_read(void **state)
{
    (void)state;
    static const char *const here[] = {
        "",
        "[project]\nname = 'x'\n",
        "[build-system]\nrequires = [\"setuptools>=61.0\", 'wheel']\nbuild-backend = 'x'\n",
        "[build-system]\nrequires = [\n  \"Setuptools\",\n]\n[tool.x]\nrequires = ['hatch']\n",
        "[tool.x]\nrequires = ['hatch']\n[build-system]\nbuild-backend = 'setuptools.build_meta'",
        "[build-system]\nrequires = []",
    };
    static const char *const not_here[] = {
        "[build-system]\nrequires = [\"hatchling\"]\n",
        "[build-system]\nrequires=['setuptools',\n'cython']\n",
        "[build-system]\nrequires = ['setuptools[core]']\n",
        "[build-system]\nrequires = ['hatch",
    };
    for (size_t i = 0; i < TY_COUNT(here); i++)
        assert_true(pyproject_builds_here(ty_str_of(here[i])));
    for (size_t i = 0; i < TY_COUNT(not_here); i++)
        assert_false(pyproject_builds_here(ty_str_of(not_here[i])));
}

static void wheels_are_named(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    assert_string_equal(
        wheel_name(&a, TY_STR("x-1.0.dist-info"),
                   TY_STR("Wheel-Version: 1.0\nTag: py2-none-any\nTag: py3-none-any\n")),
        "x-1.0-py2.py3-none-any.whl");
    assert_string_equal(wheel_name(&a, TY_STR("x-1+cpu.dist-info"), TY_STR("")),
                        "x-1+cpu-py3-none-any.whl");
    assert_string_equal(
        wheel_name(&a, TY_STR("x-1.dist-info"), TY_STR("Tag: a/b-none-any\nTag: x\n")),
        "x-1-py3-none-any.whl"); /* no path gets into it */
    static const char *const bad[] = {"",
                                      "x.dist-info",
                                      "x-1",
                                      "../x-1.dist-info",
                                      "x/y-1.dist-info",
                                      ".x-1.dist-info",
                                      "x y-1.dist-info"};
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        assert_null(wheel_name(&a, ty_str_of(bad[i]), TY_STR("")));
    ty_arena_clear(&a);
}

/* ---- programs ---- */

static int ticks;
static void count_tick(int64_t elapsed_ms)
{
    assert_true(elapsed_ms > 0);
    ticks++;
}

static void programs_are_run(void **state)
{
    (void)state;
    struct ty_buf out;
    int status = -1;
    ty_buf_init(&out, 64);
    const char *pwd[] = {"sh", "-c", "pwd; echo gone >&2; exit 3", NULL};
    struct program p = {.argv = pwd, .capture = &out, .quiet = true};
    assert_ok(program_run(&p, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    assert_string_equal(out.ptr, "/\n"); /* a module in the caller's folder is not pip's */

    ty_buf_clear(&out);
    const char *seq[] = {"seq", "1000", NULL};
    p.argv = seq;
    assert_err(TY_RESOURCE_EXHAUSTED, program_run(&p, &status));
    ty_buf_clear(&out);

    const char *sleep_some[] = {"sleep", "0.5", NULL};
    struct program slow = {.argv = sleep_some, .tick_ms = 50, .tick = count_tick};
    assert_ok(program_run(&slow, &status));
    assert_int_equal(status, 0);
    assert_true(ticks >= 1);
    const char *none[] = {"/no/such/program", NULL};
    struct program missing = {.argv = none};
    assert_err(TY_NOT_FOUND, program_run(&missing, &status));
}

static void runtime_carries_the_usual(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct python_runtime r;
    assert_ok(python_runtime_find(&a, TY_STR("tf-cpu.2-15"), &debian, &r));
    static const char *const wanted[] = {"pandas", "scikit-learn", "google-cloud-storage",
                                         "cloudml-hypertune>=0.1.0.dev6"};
    for (size_t i = 0; i < TY_COUNT(wanted); i++) {
        bool there = false;
        for (size_t k = 0; r.requirements[k]; k++)
            there |= strcmp(r.requirements[k], wanted[i]) == 0;
        if (!there)
            fail_msg("the runtime has no '%s'", wanted[i]);
    }
    ty_arena_clear(&a);
}

static void unknown_images_are_refused(void **state)
{
    (void)state;
    static const char *const images[] = {
        "",
        "ubuntu",
        "tf-cpu",
        "tf-cpu.2",
        "tf-cpu.x-1",
        "tf-cpu.2-",
        "tf-cpu.2-1234",
        "tf-cpu.-2-1",
        "my-tf-cpu.2-12x",
        "host/x",
        "tf-cpu.2--3",
    };
    for (size_t i = 0; i < TY_COUNT(images); i++) {
        assert_err(TY_INVALID_ARGUMENT, python_image_check(ty_str_of(images[i])));
        assert_non_null(strstr(ty_err_message(), "tf-cpu.2-N"));
    }
}

static void keys_tell_runtimes_apart(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct python_host other = debian;
    other.version = "3.11.9";
    struct python_runtime x, same, image, version, host;
    assert_ok(python_runtime_find(&a, TY_STR("tf-cpu.2-12"), &debian, &x));
    assert_ok(python_runtime_find(&a, TY_STR("eu/tf-gpu.2-3:latest"), &debian, &same));
    assert_ok(python_runtime_find(&a, TY_STR("tf-cpu.2-13"), &debian, &image));
    assert_ok(python_runtime_find(&a, TY_STR("tf-cpu.2-12"), &other, &version));
    assert_ok(python_runtime_find(&a, TY_STR("host"), &debian, &host));
    assert_string_equal(x.key, same.key); /* the same packages: one runtime serves both */
    assert_string_not_equal(x.key, image.key);
    assert_string_not_equal(x.key, version.key);
    assert_string_not_equal(x.key, host.key);
    ty_arena_clear(&a);
}

static void names_in_a_request(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    assert_string_equal(python_package_path(&a, TY_STR("/a/b.whl")), "/a/b.whl");
    assert_string_equal(python_package_path(&a, TY_STR("file:///a/b.whl")), "/a/b.whl");
    assert_null(python_package_path(&a, TY_STR("gs://b/x.tar.gz")));
    assert_null(python_package_path(&a, TY_STR("x.tar.gz")));
    assert_null(python_package_path(&a, TY_STR("file://x.tar.gz")));
    assert_null(python_package_path(&a, TY_STR("")));
    static const char *const good[] = {"task", "trainer.task", "_a.b2.C"};
    static const char *const bad[] = {"", ".", "a.", ".a", "a..b", "2a", "a-b", "a b", "-c", "a/b"};
    for (size_t i = 0; i < TY_COUNT(good); i++)
        assert_true(python_module_is_valid(ty_str_of(good[i])));
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        assert_false(python_module_is_valid(ty_str_of(bad[i])));
    ty_arena_clear(&a);
}

static void host_is_asked(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct python_host host;
    assert_true(python_is_there("sh"));
    assert_false(python_is_there("no-such-program-here"));
    assert_false(python_is_there("/no/such/program"));
    assert_err(TY_FAILED_PRECONDITION, python_host_read(&a, "/no/such/python", &host));
    assert_err(TY_FAILED_PRECONDITION, python_host_read(&a, "true", &host));
    assert_non_null(strstr(ty_err_message(), "setting 'python'"));
    if (python_is_there("python3")) {
        assert_ok(python_host_read(&a, "python3", &host));
        assert_true(host.minor >= 7 && host.executable[0] == '/');
    }
    ty_arena_clear(&a);
}

static void put(struct ty_arena *a, const char *data, const char *kind, const char *key,
                const char *ready)
{
    const char *folder = ty_format(a, "%s/python/%s/%s", data, kind, key);
    assert_ok(ty_mkdirs(folder, 0700));
    if (ready)
        assert_ok(
            ty_file_replace(AT_FDCWD, ty_format(a, "%s/.ready", folder), ty_str_of(ready), 0600));
}

#define KEY(digit) digit digit digit digit digit digit digit digit
#define KEY64(d)   KEY(d) KEY(d) KEY(d) KEY(d) KEY(d) KEY(d) KEY(d) KEY(d)

static void runtimes_are_listed_and_removed(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    const char *tmp = getenv("TMPDIR");
    char *data = ty_format(&a, "%s/ty-python-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(data));
    struct python_listed *list;
    size_t count;
    assert_ok(python_runtime_list(&a, data, &list, &count));
    assert_int_equal(count, 0);

    put(&a, data, "runtimes", KEY64("a"), "tf\ntensorflow-cpu 2.15.1 on Python 3.11.2\n");
    put(&a, data, "runtimes", KEY64("b"), "host\nthis machine's Python 3.11.2\n");
    put(&a, data, "runtimes", KEY64("c"), NULL); /* half made */
    put(&a, data, "envs", KEY64("d"), KEY64("a") "\n");
    put(&a, data, "envs", KEY64("e"), KEY64("b") "\n");
    assert_ok(python_runtime_list(&a, data, &list, &count));
    assert_int_equal(count, 2);
    assert_true(ty_str_is(list[0].what, "tensorflow-cpu 2.15.1 on Python 3.11.2"));
    assert_int_equal(list[0].envs, 1);

    assert_err(TY_NOT_FOUND, python_runtime_remove(data, TY_STR("aaa"))); /* too short */
    assert_err(TY_NOT_FOUND, python_runtime_remove(data, TY_STR("cccccc")));
    assert_ok(python_runtime_remove(data, TY_STR("aaaaaa")));
    assert_ok(python_runtime_list(&a, data, &list, &count));
    assert_int_equal(count, 1);
    assert_int_equal(access(ty_format(&a, "%s/python/envs/%s", data, KEY64("d")), F_OK), -1);
    assert_int_equal(access(ty_format(&a, "%s/python/envs/%s", data, KEY64("e")), F_OK), 0);
    assert_ok(ty_remove_tree(AT_FDCWD, data));
    ty_arena_clear(&a);
}

/* An attempt's folder as exec has it: a link to the environment, and a lock held by a child. */
static pid_t run_attempt(struct ty_arena *a, const char *data, const char *env)
{
    const char *folder = ty_format(a, "%s/jobs/7/1", data);
    int ready[2];
    char c;
    assert_ok(ty_mkdirs(folder, 0700));
    assert_int_equal(symlink(env, ty_format(a, "%s/python-1", folder)), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = ty_fork();
    if (pid == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(ty_format(a, "%s/lock", folder), O_RDWR | O_CREAT, 0600);
        if (fd < 0 || fcntl(fd, F_SETLK, &lock) != 0)
            _exit(1);
        close(ready[1]);
        pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 0);
    close(ready[0]);
    return pid;
}

static void make_old(struct ty_arena *a, const char *data, const char *key, int days)
{
    int64_t then = ty_now_ns() / 1000000000 - (int64_t)days * 24 * 3600;
    struct timespec times[2] = {{.tv_sec = then}, {.tv_sec = then}};
    const char *folder = env_place(a, data, "envs", key);
    utimensat(AT_FDCWD, ty_format(a, "%s/.ready", folder), times, 0);
    assert_int_equal(utimensat(AT_FDCWD, folder, times, 0), 0);
}

static bool env_is_there(struct ty_arena *a, const char *data, const char *key)
{
    return access(env_place(a, data, "envs", key), F_OK) == 0;
}

static void unused_environments_go(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    const char *tmp = getenv("TMPDIR");
    char *data = ty_format(&a, "%s/ty-python-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(data));
    put(&a, data, "runtimes", KEY64("f"), "tf\nx\n");
    put(&a, data, "envs", KEY64("1"), KEY64("f") "\n"); /* old, and used by what runs */
    put(&a, data, "envs", KEY64("2"), KEY64("f") "\n"); /* old */
    put(&a, data, "envs", KEY64("3"), KEY64("f") "\n"); /* young */
    put(&a, data, "envs", KEY64("4"), NULL);            /* old and half made */
    put(&a, data, "envs", KEY64("5"), KEY64("f") "\n"); /* was old, is used again */
    static const char *const old[] = {KEY64("1"), KEY64("2"), KEY64("4"), KEY64("5")};
    for (size_t i = 0; i < TY_COUNT(old); i++)
        make_old(&a, data, old[i], 31);
    make_old(&a, data, KEY64("3"), 29);
    /* The server may know the data folder by another path. */
    pid_t pid = run_attempt(&a, data, env_place(&a, "/elsewhere", "envs", KEY64("1")));
    assert_ok(keep_touch(&a, env_place(&a, data, "envs", KEY64("5"))));
    assert_err(TY_NOT_FOUND, keep_touch(&a, env_place(&a, data, "envs", KEY64("6"))));

    assert_int_equal(keep_clean(&a, data), 2);
    assert_true(env_is_there(&a, data, KEY64("1")) && env_is_there(&a, data, KEY64("3")) &&
                env_is_there(&a, data, KEY64("5")));
    assert_false(env_is_there(&a, data, KEY64("2")) || env_is_there(&a, data, KEY64("4")));
    assert_err(TY_FAILED_PRECONDITION, python_runtime_remove(data, TY_STR("ffffff")));
    assert_non_null(strstr(ty_err_message(), "a job that runs now uses it"));
    assert_true(env_is_there(&a, data, KEY64("1")));

    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(keep_clean(&a, data), 1); /* the attempt is over */
    assert_ok(python_runtime_remove(data, TY_STR("ffffff")));
    assert_ok(ty_remove_tree(AT_FDCWD, data));
    ty_arena_clear(&a);
}

/* What one process builds or takes, no other removes. */
static void locks_keep_it(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    const char *tmp = getenv("TMPDIR");
    char *data = ty_format(&a, "%s/ty-python-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(data));
    static const short types[] = {F_RDLCK, F_WRLCK};
    put(&a, data, "envs", KEY64("1"), KEY64("f") "\n");
    make_old(&a, data, KEY64("1"), 31);
    for (size_t i = 0; i < TY_COUNT(types); i++) {
        int ready[2];
        char c;
        assert_int_equal(pipe(ready), 0);
        pid_t pid = ty_fork();
        if (pid == 0) {
            int fd;
            if (keep_lock(&a, env_place(&a, data, "envs", KEY64("1")), types[i], false, &fd) !=
                TY_OK)
                _exit(1);
            close(ready[1]);
            pause();
        }
        close(ready[1]);
        assert_int_equal(read(ready[0], &c, 1), 0);
        close(ready[0]);
        assert_int_equal(keep_clean(&a, data), 0);
        assert_err(TY_FAILED_PRECONDITION, keep_remove(&a, data, "envs", KEY64("1")));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    assert_int_equal(keep_clean(&a, data), 1);
    assert_ok(ty_remove_tree(AT_FDCWD, data));
    ty_arena_clear(&a);
}

static void wheels_of_a_runtime(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    const char *tmp = getenv("TMPDIR");
    char *folder = ty_format(&a, "%s/ty-python-XXXXXX", tmp ? tmp : "/tmp");
    struct python_runtime tf, host;
    assert_non_null(mkdtemp(folder));
    assert_ok(python_runtime_find(&a, TY_STR("tf-cpu.2-12"), &debian, &tf));
    assert_ok(python_runtime_find(&a, TY_STR("host"), &debian, &host));
    assert_true(python_runtime_has_wheels("", &host));
    assert_false(python_runtime_has_wheels("", &tf));
    static const char *const others[] = {"tensorflow_cpu-2.13.1-cp311-cp311-any.whl",
                                         "tensorflow-2.12.1-cp311-cp311-any.whl", "README",
                                         "tensorflow_cpu-2.12.1.tar.gz"};
    for (size_t i = 0; i < TY_COUNT(others); i++)
        assert_ok(
            ty_file_replace(AT_FDCWD, ty_format(&a, "%s/%s", folder, others[i]), TY_STR(""), 0600));
    assert_false(python_runtime_has_wheels(folder, &tf));
    assert_ok(ty_file_replace(AT_FDCWD,
                              ty_format(&a, "%s/tensorflow_cpu-2.12.1-cp311-cp311-any.whl", folder),
                              TY_STR(""), 0600));
    assert_true(python_runtime_has_wheels(folder, &tf));
    assert_ok(ty_remove_tree(AT_FDCWD, folder));
    ty_arena_clear(&a);
}

static const struct CMUnitTest tests[] = {
    TEST("runtime/is_found", runtime_is_found),
    TEST("runtime/nearest_version_is_used", nearest_version_is_used),
    TEST("runtime/pytorch_and_its_numpy", pytorch_and_its_numpy),
    TEST("runtime/legacy_versions", legacy_versions),
    TEST("runtime/carries_the_usual", runtime_carries_the_usual),
    TEST("runtime/unknown_images_are_refused", unknown_images_are_refused),
    TEST("runtime/keys_tell_runtimes_apart", keys_tell_runtimes_apart),
    TEST("runtime/listed_and_removed", runtimes_are_listed_and_removed),
    TEST("runtime/wheels_of_it", wheels_of_a_runtime),
    TEST("keep/unused_environments_go", unused_environments_go),
    TEST("keep/locks_keep_it", locks_keep_it),
    TEST("require/requirements_are_cut", requirements_are_cut),
    TEST("require/metadata_is_read", metadata_is_read),
    TEST("require/complaints_are_read", complaints_are_read),
    TEST("require/build_system_is_read", build_system_is_read),
    TEST("require/wheels_are_named", wheels_are_named),
    TEST("run/programs_are_run", programs_are_run),
    TEST("names/in_a_request", names_in_a_request),
    TEST("host/is_asked", host_is_asked),
};
TEST_MAIN("python", tests)

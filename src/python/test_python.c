/* test_python.c -- hashes, what an image stands for, names, and the folders of runtimes.
 *
 * Making environments for real takes pip: tests/clients/test_packages.py does it. */
#include "base/test.h"
#include "python/python.h"

static const struct python_host debian = {"/usr/bin/python3.11", "3.11.2", 11};

static const char *digest(ty_str text)
{
    static char out[PYTHON_KEY_BYTES];
    struct python_sha256 h;
    python_sha256_init(&h);
    for (size_t i = 0; i < text.len; i++) /* in the smallest pieces there are */
        python_sha256_add(&h, text.ptr + i, 1);
    python_sha256_end(&h, out);
    return out;
}

/* The vectors of FIPS 180-4's examples. */
static void sha256_known_vectors(void **state)
{
    (void)state;
    assert_string_equal(digest(TY_STR("")),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(digest(TY_STR("abc")),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(digest(TY_STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void sha256_million(void **state)
{
    (void)state;
    struct python_sha256 h;
    char part[1000], out[PYTHON_KEY_BYTES];
    memset(part, 'a', sizeof part);
    python_sha256_init(&h);
    for (int i = 0; i < 1000; i++)
        python_sha256_add(&h, part, sizeof part);
    python_sha256_end(&h, out);
    assert_string_equal(out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void sha256_lists_differ(void **state)
{
    (void)state;
    struct python_sha256 x, y;
    char one[PYTHON_KEY_BYTES], two[PYTHON_KEY_BYTES];
    python_sha256_init(&x);
    python_sha256_init(&y);
    python_sha256_adds(&x, TY_STR("ab"));
    python_sha256_adds(&x, TY_STR("c"));
    python_sha256_adds(&y, TY_STR("a"));
    python_sha256_adds(&y, TY_STR("bc"));
    python_sha256_end(&x, one);
    python_sha256_end(&y, two);
    assert_string_not_equal(one, two);
}

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
        {"tf-cpu.1-15", 11, "tensorflow-cpu==2.12.1"}, /* another major */
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

static const struct CMUnitTest tests[] = {
    TEST("sha256/known_vectors", sha256_known_vectors),
    TEST("sha256/million", sha256_million),
    TEST("sha256/lists_differ", sha256_lists_differ),
    TEST("runtime/is_found", runtime_is_found),
    TEST("runtime/nearest_version_is_used", nearest_version_is_used),
    TEST("runtime/carries_the_usual", runtime_carries_the_usual),
    TEST("runtime/unknown_images_are_refused", unknown_images_are_refused),
    TEST("runtime/keys_tell_runtimes_apart", keys_tell_runtimes_apart),
    TEST("runtime/listed_and_removed", runtimes_are_listed_and_removed),
    TEST("names/in_a_request", names_in_a_request),
    TEST("host/is_asked", host_is_asked),
};
TEST_MAIN("python", tests)

/* test_vertex.h -- the handlers behind their router, with a real store in a temporary folder and no
 * sockets. */
#ifndef TY_TEST_VERTEX_H
#define TY_TEST_VERTEX_H

#include "base/test.h"
#include "vertex/vertex_int.h"

/* Each test program uses some of these. */
#define HELPER static __attribute__((unused))

#define PARENT   "/v1/projects/demo/locations/us-central1"
#define JOBS     PARENT "/customJobs"
#define TASK     "\"containerSpec\":{\"imageUri\":\"host\",\"command\":[\"true\"]}"
#define POOL_OK  "{" TASK "}"
#define SPEC(s)  "{\"displayName\":\"t\",\"jobSpec\":{" s "}}"
#define POOLS(p) SPEC("\"workerPoolSpecs\":[" p "]")
#define WITH(m)  SPEC("\"workerPoolSpecs\":[" POOL_OK "]," m)
#define TOP(m)   "{\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK "]}," m "}"
#define HOST(m)  POOLS("{\"containerSpec\":{\"imageUri\":\"host\"," m "}}")
#define JOB_OK   POOLS(POOL_OK)
#define PYTHON(image, package, module)                                                             \
    POOLS("{\"pythonPackageSpec\":{\"executorImageUri\":\"" image "\",\"packageUris\":[\"" package \
          "\"],\"pythonModule\":\"" module "\"}}")
#define PACKAGE_SPEC "jobSpec.workerPoolSpecs[0].pythonPackageSpec."

/* A server without its server: what handlers need, and the last reply. */
struct yard {
    struct ty_arena life, request;
    struct ty_config config;
    char dir[64];
    struct store *store;
    struct machine_host host;
    struct vertex vertex;
    struct http_router *router;
    int notified;
    int64_t notified_id;
    struct http_response res;
};

HELPER void count_notify(void *arg, int64_t id)
{
    struct yard *y = arg;
    y->notified++;
    y->notified_id = id;
}

HELPER void yard_open(struct yard *y)
{
    const char *tmp = getenv("TMPDIR");
    *y = (struct yard){0};
    ty_config_init(&y->config, &y->life);
    y->config.disk_reserve_bytes = 0;
    y->config.container_engine = "none";
    snprintf(y->dir, sizeof y->dir, "%.40s/vertex-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(y->dir));
    assert_ok(store_open(y->dir, &y->store));
    y->vertex = (struct vertex){&y->config, &y->host, y->store, count_notify, y, y->dir};
    struct http_routes table = vertex_routes(&y->vertex);
    assert_ok(http_router_new(&table, 1, &y->router));
    ty_buf_init(&y->res.body, 64 << 20);
}

HELPER void yard_close(struct yard *y)
{
    http_router_free(y->router);
    store_close(y->store);
    ty_buf_clear(&y->res.body);
    ty_arena_clear(&y->request);
    ty_arena_clear(&y->life);
    assert_ok(ty_remove_tree(AT_FDCWD, y->dir));
}

HELPER struct http_param *query_parse(struct ty_arena *a, ty_str text)
{
    struct http_param *first = NULL, **tail = &first;
    ty_str pair, name, value;
    while (text.len > 0) {
        ty_str_split(&text, '&', &pair);
        ty_str_split(&pair, '=', &name);
        struct http_param *p = ty_new(a, struct http_param);
        assert_ok(wire_url_decode(a, pair, true, &value));
        *p = (struct http_param){name, value, NULL};
        *tail = p;
        tail = &p->next;
    }
    return first;
}

/* One request; the reply is in y->res until the next one. */
HELPER ty_err call_as(struct yard *y, enum http_method method, const char *target, ty_str body,
                      const char *agent)
{
    ty_arena_clear(&y->request);
    struct ty_buf out = y->res.body;
    out.len = 0;
    y->res = (struct http_response){.body = out};
    ty_str query = ty_str_of(target), path;
    ty_str_split(&query, '?', &path);
    struct http_request req = {.method = method,
                               .path = path,
                               .body = body,
                               .user_agent = ty_str_of(agent),
                               .arena = &y->request};
    req.query = query_parse(&y->request, query);
    http_handler handler;
    void *ctx;
    ty_err err = http_router_match(y->router, &req, &handler, &ctx);
    return err == TY_OK ? handler(&req, &y->res, ctx) : err;
}

HELPER ty_err call(struct yard *y, enum http_method method, const char *target, const char *body)
{
    return call_as(y, method, target, ty_str_of(body), "");
}

HELPER json_t *reply(struct yard *y)
{
    json_t *value = NULL;
    assert_ok(wire_json_parse(ty_buf_str(&y->res.body), &value));
    return value;
}

/* A text member of the reply, copied. "a.b" goes one down. */
HELPER const char *reply_text(struct yard *y, const char *path)
{
    json_t *value = reply(y), *at = value;
    ty_str rest = ty_str_of(path), key;
    bool more;
    do {
        more = ty_str_split(&rest, '.', &key);
        at = json_object_get(at, ty_cstr(&y->life, key));
    } while (more);
    const char *text = ty_cstr(&y->life, ty_str_of(json_string_value(at)));
    json_decref(value);
    return text;
}

HELPER void assert_violation(struct yard *y, const char *field)
{
    const char *want = ty_format(&y->life, "\"field\":\"%s\"", field);
    ty_str have = y->res.error_details;
    if (have.len == 0 || memmem(have.ptr, have.len, want, strlen(want)) == NULL)
        fail_msg("no violation of '%s': %s; details " TY_STR_FMT, field, ty_err_message(),
                 TY_STR_ARG(have));
}

/* Create a job and return its id. */
HELPER int64_t create(struct yard *y, const char *body)
{
    int64_t id;
    assert_ok(call(y, HTTP_POST, JOBS, body));
    const char *name = reply_text(y, "name");
    assert_ok(ty_parse_i64(ty_str_of(strrchr(name, '/') + 1), &id));
    return id;
}

HELPER void end_job(struct yard *y, int64_t id, enum job_state state)
{
    struct store_change c = {.job_id = id, .state = JOB_STATE_RUNNING, .start_ns = ty_now_ns()};
    assert_ok(store_apply(y->store, &c, 1));
    c = (struct store_change){.job_id = id, .state = state, .end_ns = ty_now_ns()};
    if (state == JOB_STATE_FAILED) {
        c.error_code = TY_INVALID_ARGUMENT;
        c.error_message = "The replica workerpool0-0 exited with a non-zero status of 1.\n\"last\"";
    }
    assert_ok(store_apply(y->store, &c, 1));
}

HELPER const char *job_path(struct yard *y, int64_t id, const char *verb)
{
    return ty_format(&y->life, JOBS "/%" PRId64 "%s", id, verb);
}

#endif

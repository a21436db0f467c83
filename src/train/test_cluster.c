/* test_cluster.c -- TF_CONFIG: what is read, and one sentence for each way to be wrong. */
#define TY_SEAM
#include "base/test.h"
#include "train/train_int.h"

static ty_err parse(const char *text, struct train_cluster *ret)
{
    static struct ty_arena a;
    ty_arena_clear(&a);
    return train_cluster_parse(&a, ty_str_of(text), ret);
}

#define CLUSTER(task)                                                                              \
    "{\"cluster\":{\"chief\":[\"h:1\"],\"worker\":[\"h:2\",\"h:3\"],\"ps\":[\"127.0.0.1:4\"]},"    \
    "\"environment\":\"cloud\",\"task\":" task ",\"job\":{\"any\":1}}"

static void tasks_are_read(void **state)
{
    (void)state;
    struct train_cluster c, other;
    assert_ok(parse(CLUSTER("{\"type\":\"worker\",\"index\":1}"), &c));
    assert_int_equal(c.role, TRAIN_WORKER);
    assert_int_equal(c.index, 1);
    assert_int_equal(c.rank, 2);
    assert_int_equal(c.trainers, 3);
    assert_string_equal(c.name, "worker 1");
    assert_false(c.is_chief);
    assert_string_equal(c.addresses[TRAIN_PS][0], "127.0.0.1:4");
    uint64_t id = c.id;
    assert_ok(parse(CLUSTER("{\"type\":\"evaluator\",\"index\":\"0\"}"), &other));
    assert_true(other.id == id && !other.is_chief && other.role == TRAIN_EVALUATOR);
    assert_ok(parse("{\"cluster\":{\"master\":[\"h:1\"],\"worker\":[\"h:2\"]},"
                    "\"task\":{\"type\":\"master\",\"index\":0}}",
                    &c));
    assert_true(c.is_chief && c.role == TRAIN_CHIEF && c.id != id);
    assert_ok(parse("{\"cluster\":{\"worker\":[\"[::1]:1\",\"h:2\"]},"
                    "\"task\":{\"type\":\"worker\",\"index\":0}}",
                    &c));
    assert_true(c.is_chief && c.rank == 0 && c.trainers == 2);
}

static void none_is_a_process_alone(void **state)
{
    (void)state;
    static const char *const texts[] = {"", " ", "{}", "{\"cluster\":{},\"task\":{}}",
                                        "{\"environment\":\"cloud\"}"};
    struct train_cluster c;
    enum train_strategy s;
    for (size_t i = 0; i < TY_COUNT(texts); i++) {
        assert_ok(parse(texts[i], &c));
        assert_true(c.alone && c.is_chief && c.trainers == 1 && c.rank == 0);
        assert_ok(train_strategy_choose(&c, NULL, &s));
        assert_int_equal(s, TRAIN_ONE_DEVICE);
    }
}

static void mistakes_are_one_sentence(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"cluster\":", "TF_CONFIG: JSON at line 1, column 11"},
        {"[]", "must be a JSON object"},
        {"{\"cluster\":3}", "cluster must be an object"},
        {"{\"cluster\":{\"ps\":[\"h:1\"]}}", "no chief and no worker"},
        {"{\"cluster\":{\"chief\":\"h:1\"}}", "cluster.chief must be a list"},
        {"{\"cluster\":{\"chief\":[\"h:1\",\"h:2\"]}}", "2 chiefs"},
        {"{\"cluster\":{\"chief\":[\"h:1\"],\"master\":[\"h:2\"]}}", "both chief and master"},
        {"{\"cluster\":{\"boss\":[\"h:1\"]}}", "there is no task type 'boss'"},
        {"{\"cluster\":{\"chief\":[\"h:1\"],\"ps\":[\"h:2\",\"H:1\"]}}",
         "chief 0 and ps 1 have one address, H:1"},
        {"{\"cluster\":{\"chief\":[\"h\"]}}", "cluster.chief[0]: 'h' is no address"},
        {"{\"cluster\":{\"chief\":[\":1\"]}}", "no address"},
        {"{\"cluster\":{\"chief\":[\"h:0\"]}}", "no address"},
        {"{\"cluster\":{\"chief\":[\"h:+1\"]}}", "no address"},
        {"{\"cluster\":{\"chief\":[\"h:65536\"]}}", "no address"},
        {"{\"cluster\":{\"chief\":[\"a b:1\"]}}", "no address"},
        {"{\"cluster\":{\"chief\":[\"[::1:1\"]}}", "no address"},
        {"{\"cluster\":{\"chief\":[7]}}", "no address"},
        {CLUSTER("{}"), "task.type is needed"},
        {CLUSTER("null"), "task.type is needed"},
        {CLUSTER("{\"type\":\"boss\",\"index\":0}"), "task.type: there is no task type 'boss'"},
        {CLUSTER("{\"type\":\"worker\"}"), "task.index must be a whole number"},
        {CLUSTER("{\"type\":\"worker\",\"index\":2}"), "task.index is 2, and the cluster has "
                                                       "worker 0 to 1"},
        {CLUSTER("{\"type\":\"worker\",\"index\":-1}"), "task.index is -1"},
        {"{\"cluster\":{\"worker\":[\"h:1\"]},\"task\":{\"type\":\"ps\",\"index\":0}}",
         "the cluster has no ps"},
    };
    struct train_cluster c;
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        assert_err(TY_INVALID_ARGUMENT, parse(cases[i][0], &c));
        assert_message(cases[i][1]);
    }
}

static void too_many_tasks_are_refused(void **state)
{
    (void)state;
    struct ty_buf b;
    struct train_cluster c;
    ty_buf_init(&b, 1 << 20);
    ty_buf_addz(&b, "{\"cluster\":{\"chief\":[\"c:1\"],\"worker\":[");
    for (int i = 0; i < TRAIN_MOST_TASKS; i++)
        ty_buf_addf(&b, "%s\"h%d:1\"", i ? "," : "", i);
    ty_buf_addz(&b, "]},\"task\":{\"type\":\"chief\",\"index\":0}}");
    assert_err(TY_INVALID_ARGUMENT, parse(b.ptr, &c));
    assert_message("more than 1024 tasks");
    ty_buf_clear(&b);
}

static void strategy_follows_the_cluster(void **state)
{
    (void)state;
    struct train_cluster c;
    enum train_strategy s;
    assert_ok(parse(CLUSTER("{\"type\":\"ps\",\"index\":0}"), &c));
    assert_ok(train_strategy_choose(&c, NULL, &s));
    assert_int_equal(s, TRAIN_PARAMETER_SERVER);
    assert_err(TY_INVALID_ARGUMENT, train_strategy_choose(&c, "multi_worker", &s));
    assert_message("no use for ps tasks");
    assert_ok(parse(CLUSTER("{\"type\":\"chief\",\"index\":0}"), &c)); /* who trains is told, too */
    assert_err(TY_INVALID_ARGUMENT, train_strategy_choose(&c, "multi_worker", &s));
    assert_message("no use for ps tasks");
    assert_err(TY_INVALID_ARGUMENT, train_strategy_choose(&c, "many", &s));
    assert_message("there are one_device, mirrored, multi_worker, parameter_server");
    assert_ok(parse("{\"cluster\":{\"worker\":[\"h:1\",\"h:2\"]},"
                    "\"task\":{\"type\":\"worker\",\"index\":0}}",
                    &c));
    assert_ok(train_strategy_choose(&c, NULL, &s));
    assert_int_equal(s, TRAIN_MULTI_WORKER);
    assert_err(TY_INVALID_ARGUMENT, train_strategy_choose(&c, "parameter_server", &s));
    assert_message("needs ps tasks");
    assert_err(TY_INVALID_ARGUMENT, train_strategy_choose(&c, "one", &s));
    assert_message("--strategy one_device is of one process, and TF_CONFIG's cluster has 2");
    assert_ok(parse("", &c));
    assert_ok(train_strategy_choose(&c, "one", &s));
    assert_int_equal(s, TRAIN_ONE_DEVICE);
}

static const struct CMUnitTest tests[] = {
    TEST("cluster/tasks_are_read", tasks_are_read),
    TEST("cluster/none_is_a_process_alone", none_is_a_process_alone),
    TEST("cluster/mistakes_are_one_sentence", mistakes_are_one_sentence),
    TEST("cluster/too_many_tasks_are_refused", too_many_tasks_are_refused),
    TEST("cluster/strategy_follows_the_cluster", strategy_follows_the_cluster),
};
TEST_MAIN("train_cluster", tests)

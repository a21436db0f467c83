/* cluster.c -- TF_CONFIG: who the replicas of a job are, where they listen, and which one this is.
 *
 *   {"cluster": {"chief": ["h:1"], "worker": ["h:2", "h:3"], "ps": ["h:4"]},
 *    "task": {"type": "worker", "index": 0}, "environment": "cloud", "job": ...}
 *
 * As TensorFlow reads it: `master` is the old name of `chief`; without one worker 0 is the chief;
 * the evaluator is a task that the cluster need not list. No cluster, or an empty one, is a process
 * on its own. What is wrong is told before anything is computed, by the field. */
#include "train/train_int.h"

enum { CLUSTER_BYTES = 1 << 20, ADDRESS_BYTES = 255 };

/* By name; `master` after `chief`, so that a role's own name is the first. */
static const struct {
    const char *name;
    enum train_role role;
} ROLES[] = {{"chief", TRAIN_CHIEF},
             {"master", TRAIN_CHIEF},
             {"worker", TRAIN_WORKER},
             {"ps", TRAIN_PS},
             {"evaluator", TRAIN_EVALUATOR}};
static const char *const STRATEGIES[] = {"one_device", "mirrored", "multi_worker",
                                         "parameter_server"};

const char *train_role_name(enum train_role role)
{
    for (size_t i = 0; i < TY_COUNT(ROLES); i++)
        if (ROLES[i].role == role)
            return ROLES[i].name;
    return "task";
}

static ty_err role_find(const char *where, const char *name, enum train_role *ret_role)
{
    for (size_t i = 0; i < TY_COUNT(ROLES); i++)
        if (strcmp(ROLES[i].name, name) == 0) {
            *ret_role = ROLES[i].role;
            return TY_OK;
        }
    return ty_fail(TY_INVALID_ARGUMENT,
                   "TF_CONFIG: %s: there is no task type '%.64s'; there are chief (or master), "
                   "worker, ps, evaluator",
                   where, name);
}

bool train_address_fits(const char *text)
{
    const char *colon = strrchr(text, ':');
    int64_t port;
    if (colon == NULL || colon == text || strlen(text) > ADDRESS_BYTES)
        return false;
    if (colon[1] < '0' || colon[1] > '9' || ty_parse_i64(ty_str_of(colon + 1), &port) != TY_OK ||
        port < 1 || port > 65535)
        return false;
    bool v6 = text[0] == '[';
    if (v6 && (colon[-1] != ']' || colon - text < 4))
        return false;
    for (const char *c = text + v6; c < colon - v6; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        bool other = strchr(v6 ? ":." : ".-_", *c) != NULL;
        if (!letter && !other && !(*c >= '0' && *c <= '9'))
            return false;
    }
    return true;
}

static ty_err tasks_read(struct ty_arena *a, struct train_cluster *c, const char *name,
                         const json_t *list)
{
    enum train_role role = TRAIN_CHIEF;
    ty_err err = role_find("cluster", name, &role);
    if (err != TY_OK)
        return err;
    if (c->addresses[role])
        return ty_fail(TY_INVALID_ARGUMENT, "TF_CONFIG: cluster has both chief and master: one of "
                                            "the two names is enough");
    if (!json_is_array(list))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "TF_CONFIG: cluster.%s must be a list of host:port addresses", name);
    size_t count = json_array_size(list), all = 0;
    for (size_t i = 0; i < TRAIN_ROLES; i++)
        all += c->counts[i];
    if (count > TRAIN_MOST_TASKS - all)
        return ty_fail(TY_INVALID_ARGUMENT, "TF_CONFIG: the cluster has more than %d tasks",
                       TRAIN_MOST_TASKS);
    c->addresses[role] = ty_new_array(a, const char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text == NULL || !train_address_fits(text))
            return ty_fail(TY_INVALID_ARGUMENT,
                           "TF_CONFIG: cluster.%s[%zu]: '%.64s' is no address: host:port is", name,
                           i, text ? text : "(not a string)");
        c->addresses[role][i] = ty_cstr(a, ty_str_of(text));
    }
    c->counts[role] = count;
    return TY_OK;
}

/* The same for the two names that every machine has for itself. */
const char *train_address_key(struct ty_arena *a, const char *address)
{
    static const char local[] = "localhost:";
    bool is_local = strncasecmp(address, local, sizeof local - 1) == 0;
    return is_local ? ty_format(a, "127.0.0.1:%s", address + sizeof local - 1) : address;
}

/* No two listen at one place. */
static ty_err addresses_check(struct ty_arena *a, const struct train_cluster *c)
{
    const char *seen[TRAIN_MOST_TASKS], *names[TRAIN_MOST_TASKS];
    size_t count = 0;
    for (int role = 0; role < TRAIN_ROLES; role++)
        for (size_t i = 0; i < c->counts[role]; i++) {
            const char *address = c->addresses[role][i];
            const char *name = ty_format(a, "%s %zu", train_role_name((enum train_role)role), i);
            for (size_t k = 0; k < count; k++)
                if (strcasecmp(seen[k], train_address_key(a, address)) == 0)
                    return ty_fail(TY_INVALID_ARGUMENT,
                                   "TF_CONFIG: %s and %s have one address, %s: each task needs its "
                                   "own",
                                   names[k], name, address);
            seen[count] = train_address_key(a, address);
            names[count++] = name;
        }
    return TY_OK;
}

static ty_err cluster_read(struct ty_arena *a, struct train_cluster *c, json_t *cluster)
{
    const char *name;
    json_t *list;
    ty_err err = TY_OK;
    if (!json_is_object(cluster))
        return ty_fail(TY_INVALID_ARGUMENT, "TF_CONFIG: cluster must be an object: "
                                            "{\"chief\": [\"host:port\"], \"worker\": [...]}");
    json_object_foreach (cluster, name, list) {
        if (err == TY_OK)
            err = tasks_read(a, c, name, list);
    }
    if (err != TY_OK)
        return err;
    if (c->counts[TRAIN_CHIEF] > 1)
        return ty_fail(TY_INVALID_ARGUMENT, "TF_CONFIG: the cluster has %zu chiefs: it needs one",
                       c->counts[TRAIN_CHIEF]);
    if (json_object_size(cluster) > 0 && c->counts[TRAIN_CHIEF] + c->counts[TRAIN_WORKER] == 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "TF_CONFIG: the cluster has no chief and no worker: nobody would train");
    return addresses_check(a, c);
}

static ty_err index_read(const json_t *task, int64_t *ret_index)
{
    const json_t *value = json_object_get(task, "index");
    if (json_is_integer(value)) {
        *ret_index = json_integer_value(value);
        return TY_OK;
    }
    if (json_is_string(value) &&
        ty_parse_i64(ty_str_of(json_string_value(value)), ret_index) == TY_OK)
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT,
                   "TF_CONFIG: task.index must be a whole number: which of its type this is");
}

static ty_err task_read(struct train_cluster *c, const json_t *task)
{
    const char *type = json_string_value(json_object_get(task, "type"));
    int64_t index = -1;
    if (!json_is_object(task) || type == NULL)
        return ty_fail(TY_INVALID_ARGUMENT, "TF_CONFIG: task.type is needed: which of the "
                                            "cluster's tasks this process is");
    ty_err err = role_find("task.type", type, &c->role);
    if (err == TY_OK)
        err = index_read(task, &index);
    if (err != TY_OK)
        return err;
    bool listed = c->role != TRAIN_EVALUATOR || c->counts[TRAIN_EVALUATOR] > 0;
    size_t count = listed ? c->counts[c->role] : TRAIN_MOST_TASKS;
    if (count == 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "TF_CONFIG: task is %s %" PRId64 ", and the cluster has no %s", type, index,
                       type);
    if (index < 0 || (uint64_t)index >= count)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "TF_CONFIG: task.index is %" PRId64 ", and the cluster has %s 0 to %zu",
                       index, type, count - 1);
    c->index = (size_t)index;
    return TY_OK;
}

/* Of a process on its own: it trains, whatever it is called, but not as one who serves others. */
static ty_err task_alone(const json_t *task)
{
    const char *type = json_string_value(json_object_get(task, "type"));
    enum train_role role = TRAIN_CHIEF;
    if (type == NULL)
        return TY_OK;
    ty_err err = role_find("task.type", type, &role);
    if (err == TY_OK && (role == TRAIN_PS || role == TRAIN_EVALUATOR))
        err = ty_fail(TY_INVALID_ARGUMENT,
                      "TF_CONFIG: task is %s, and the cluster is empty: nobody would train", type);
    return err;
}

/* What all replicas must agree on: who is where. Evaluators may be listed or not. */
static uint64_t cluster_id(struct ty_arena *a, const struct train_cluster *c)
{
    uint64_t id = 0;
    for (int role = 0; role < TRAIN_EVALUATOR; role++) {
        id = fingerprint_cat64(id, c->counts[role]);
        for (size_t i = 0; i < c->counts[role]; i++)
            id = fingerprint_cat64(
                id, fingerprint64(ty_str_of(train_address_key(a, c->addresses[role][i]))));
    }
    return id;
}

ty_err train_cluster_parse(struct ty_arena *a, ty_str text, struct train_cluster *ret)
{
    struct train_cluster c = {.role = TRAIN_CHIEF, .alone = true};
    json_t *root = NULL;
    ty_err err = TY_OK;
    if (text.len > CLUSTER_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT, "TF_CONFIG has more than %d bytes", CLUSTER_BYTES);
    if (ty_str_trim(text).len > 0) {
        err = wire_json_parse(text, &root);
        if (err != TY_OK)
            return ty_wrap(err, "TF_CONFIG");
        if (!json_is_object(root))
            err = ty_fail(TY_INVALID_ARGUMENT, "TF_CONFIG must be a JSON object");
        json_t *cluster = json_object_get(root, "cluster");
        c.alone = cluster == NULL || json_is_null(cluster) ||
                  (json_is_object(cluster) && json_object_size(cluster) == 0);
        if (err == TY_OK && !c.alone)
            err = cluster_read(a, &c, cluster);
        if (err == TY_OK && !c.alone)
            err = task_read(&c, json_object_get(root, "task"));
        else if (err == TY_OK)
            err = task_alone(json_object_get(root, "task"));
        json_decref(root);
    }
    if (err != TY_OK)
        return err;
    bool chief = c.counts[TRAIN_CHIEF] > 0;
    c.is_chief =
        c.alone || c.role == TRAIN_CHIEF || (c.role == TRAIN_WORKER && c.index == 0 && !chief);
    c.trainers = c.alone ? 1 : c.counts[TRAIN_CHIEF] + c.counts[TRAIN_WORKER];
    c.rank = c.role == TRAIN_WORKER ? c.index + chief : 0;
    c.id = cluster_id(a, &c);
    if (c.role == TRAIN_CHIEF)
        snprintf(c.name, sizeof c.name, "chief");
    else
        snprintf(c.name, sizeof c.name, "%s %zu", train_role_name(c.role), c.index);
    *ret = c;
    return TY_OK;
}

const char *train_strategy_name(enum train_strategy strategy)
{
    return STRATEGIES[strategy];
}

static ty_err strategy_find(const char *name, enum train_strategy *ret_strategy)
{
    for (int i = 0; i < (int)TY_COUNT(STRATEGIES); i++)
        if (strcmp(STRATEGIES[i], name) == 0) {
            *ret_strategy = (enum train_strategy)i;
            return TY_OK;
        }
    if (strcmp(name, "one") == 0) {
        *ret_strategy = TRAIN_ONE_DEVICE;
        return TY_OK;
    }
    return ty_fail(TY_INVALID_ARGUMENT,
                   "--strategy: there is no '%.64s'; there are one_device, mirrored, "
                   "multi_worker, parameter_server",
                   name);
}

ty_err train_strategy_choose(const struct train_cluster *c, const char *name,
                             enum train_strategy *ret_strategy)
{
    bool has_ps = c->counts[TRAIN_PS] > 0;
    enum train_strategy s = has_ps            ? TRAIN_PARAMETER_SERVER
                            : c->trainers > 1 ? TRAIN_MULTI_WORKER
                                              : TRAIN_ONE_DEVICE;
    if (name) {
        ty_err err = strategy_find(name, &s);
        if (err != TY_OK)
            return err;
    }
    if (s == TRAIN_PARAMETER_SERVER && !has_ps)
        return ty_fail(TY_INVALID_ARGUMENT, "--strategy parameter_server needs ps tasks, and "
                                            "TF_CONFIG's cluster has none");
    if (c->trainers > 1 && (s == TRAIN_ONE_DEVICE || s == TRAIN_MIRRORED))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "--strategy %s is of one process, and TF_CONFIG's cluster has %zu that "
                       "train: multi_worker has them train together",
                       STRATEGIES[s], c->trainers);
    if (s != TRAIN_PARAMETER_SERVER && has_ps)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "--strategy %s has no use for ps tasks: leave them out of TF_CONFIG's "
                       "cluster",
                       STRATEGIES[s]);
    *ret_strategy = s;
    return TY_OK;
}

/* test_nn.c -- model files and their mistakes, features, and gradients by differences. */
#include "base/test.h"
#include "nn/nn.h"

#include <math.h>

/* A model with one of everything; REPLACE in tests changes a line. */
static const char MODEL[] =
    "name: toy\n"
    "parameters: {units: [5, 3], buckets: 4, lr: 0.1}\n"
    "input:\n"
    "  columns:\n"
    "    - {name: y, type: float}\n"
    "    - {name: when, type: string, default: na}\n"
    "    - {name: a, type: float, default: 1.5}\n"
    "    - {name: b, type: int, default: 2}\n"
    "    - {name: word, type: string, default: ''}\n"
    "    - {name: rest, type: skip}\n"
    "features:\n"
    "  - {name: hour, hour: when}\n"
    "  - {name: day, weekday: when}\n"
    "  - {name: hours, identity: hour, buckets: 24}\n"
    "  - {name: days, identity: day, buckets: 7}\n"
    "  - {name: scaled, scale: a, subtract: 1, divide: 2}\n"
    "  - {name: bucket, bucketize: a, edges: {from: 0, to: 3, count: buckets}}\n"
    "  - {name: known, vocabulary: word, words: [red, green, blue]}\n"
    "  - {name: hashed, hash: word, buckets: 10}\n"
    "  - {name: crossed, cross: [bucket, b], buckets: buckets^2}\n"
    "  - {name: twice, cross: [crossed, word], buckets: 50}\n"
    "network:\n"
    "  input: [scaled, b, {indicator: days}, {embedding: twice, size: 6},\n"
    "          {embedding: known, size: 2}, {indicator: hours}]\n"
    "  layers:\n"
    "    - {dense: units, name: h, activation: tanh}\n"
    "    - {dense: 1, name: out}\n"
    "head: {type: regression, label: y, output: fare}\n"
    "training: {optimizer: {type: adam, learning_rate: lr}, batch_size: 12}\n";

static char *replaced(struct ty_arena *a, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    return ty_format(a, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static ty_err parse(struct ty_arena *a, const char *text, struct nn_model **ret)
{
    return nn_model_parse(a, "toy.yaml", ty_str_of(text), NULL, 0, ret);
}

static void model_is_read(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct nn_model *m;
    assert_ok(parse(&a, MODEL, &m));
    assert_int_equal(m->layer_count, 4);
    assert_string_equal(m->layers[2].name.ptr, "h1");
    assert_int_equal(m->layers[0].channels, 1 + 1 + 7 + 6 + 2 + 24);
    struct nn_setting set[] = {{TY_STR("units"), TY_STR("7,8 9")},
                               {TY_STR("buckets"), TY_STR("6")}};
    assert_ok(nn_model_parse(&a, "toy.yaml", ty_str_of(MODEL), set, 2, &m));
    assert_int_equal(m->layer_count, 5);
    assert_int_equal(m->layers[3].channels, 9);
    struct nn_setting wrong = {TY_STR("unitz"), TY_STR("7")};
    assert_err(TY_NOT_FOUND, nn_model_parse(&a, "toy.yaml", ty_str_of(MODEL), &wrong, 1, &m));
    assert_message("'unitz'");
    assert_message("--units, --buckets, --lr");
    ty_arena_clear(&a);
}

static void model_mistakes_name_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"divide: 2", "divide: 0", "toy.yaml:16: features[4]: 'divide' is 0"},
        {"divide: 2", "divde: 2", "toy.yaml:16: features[4].divde: no such field"},
        {"divide: 2", "divide: bucketz", "there is no parameter 'bucketz'"},
        {"scale: a", "scale: z", "toy.yaml:16: features[4]: there is no column or feature 'z'"},
        {"hash: word", "hash: a", "'a' is a float, which does not fit"},
        {"buckets: 24", "buckets: -1", "toy.yaml:14: features[2].buckets: -1 is not from 1"},
        {"buckets: 24", "buckets: 2.5", "2.5 is not a whole number"},
        {"dense: 1,", "dense: 2,", "gives 2 numbers and the head needs 1"},
        {"dense: 1,", "dance: 1,", "toy.yaml:27: network.layers[1]: names no kind of layer"},
        {"name: out", "name: h0", "two layers are named 'h0'"},
        {"label: y", "label: nobody", "no column 'nobody'"},
        {"type: regression", "type: regressoin", "toy.yaml:28: head.type: 'regressoin' is none of"},
        {"{name: y, type: float}", "{name: a, type: float}", "two columns are named 'a'"},
        {"lr: 0.1", "lr: fast", "toy.yaml:2: parameters.lr: must be a number"},
        {"buckets^2", "buckets^2^2^2^2^2", "is not a finite number"},
        {"buckets^2", "(buckets", "')' is missing"},
        {"words: [red, green, blue]", "words: [red, red]", "'red' twice"},
        {"count: buckets", "count: 1", "1 is not from 2"},
        {"type: adam", "type: adm",
         "toy.yaml:29: training.optimizer.type: 'adm' is none of sgd, adam, adagrad, rmsprop, "
         "ftrl"},
        {"type: adam", "type: adam, l1: 3",
         "toy.yaml:29: training.optimizer.l1: no such field; there are type, learning_rate, "
         "weight_decay, schedule, lazy, beta1, beta2, epsilon"},
        {"type: adam, learning_rate: lr", "type: ftrl, rho: 0.2", "optimizer.rho: no such field"},
        {"batch_size: 12", "metrics: [mse, acuracy]",
         "toy.yaml:29: training.metrics: no 'acuracy' for a head of type regression; there are "
         "mse, mae, rmse, root_mean_squared_error"},
        {"output: fare", "output: fare, metrics: [auc]", "toy.yaml:28: head.metrics: no 'auc'"},
        {"name: out", "name: out, input: h0",
         "toy.yaml:26: network.layers[0]: the layer 'h1' is read by nothing"},
        {"tanh}", "tanh, batch_norm: true}\n    - {dense: 2, name: g, input: h1}",
         "toy.yaml:26: network.layers[0]: the layer 'h1/batch_norm' is read by nothing"},
        {"name: toy", "nam: toy", "toy.yaml:1: nam: no such field"},
        {"head: {", "head: [", "toy.yaml"},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct ty_arena a = {0};
        struct nn_model *m;
        char *text = replaced(&a, MODEL, cases[i].from, cases[i].to);
        assert_err(TY_INVALID_ARGUMENT, parse(&a, text, &m));
        assert_message(cases[i].message);
        ty_arena_clear(&a);
    }
}

/* A model of images; REPLACE in tests changes a line. */
static const char IMAGES[] = "name: images\n"
                             "input: {format: images, height: 8, width: 6, channels: 3}\n"
                             "network:\n"
                             "  layers: [{rescale: 1 / 255}, {flatten: }, {dense: 4}]\n"
                             "head: {type: multiclass, classes: 4}\n";

static void model_of_images(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"channels: 3", "channels: 2", "images.yaml:2: input: 'channels' is 1 (grey) or 3"},
        {"channels: 3", "columns: []", "input.columns: no such field; there are format, height"},
        {"height: 8, ", "", "input: 'height' is missing"},
        {"height: 8", "height: 5000", "5000 is not from 1"},
        {"classes: 4", "classes: 4, label: y", "'label': an image's class is its folder"},
        {"type: multiclass, classes: 4", "type: regression", "images have classes"},
        {"  layers", "  input: [a]\n  layers", "'input' is for columns"},
        {"head", "wide: {input: [a]}\nhead", "'wide' is for columns"},
        {"{rescale: 1 / 255}", "{pixels: 1}", "names no kind of layer"},
    };
    struct ty_arena a = {0};
    struct nn_model *m;
    assert_ok(nn_model_parse(&a, "images.yaml", ty_str_of(IMAGES), NULL, 0, &m));
    assert_int_equal(m->layers[0].height, 8);
    assert_int_equal(m->layers[2].channels, 8 * 6 * 3);
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        char *text = replaced(&a, IMAGES, cases[i].from, cases[i].to);
        assert_err(TY_INVALID_ARGUMENT,
                   nn_model_parse(&a, "images.yaml", ty_str_of(text), NULL, 0, &m));
        assert_message(cases[i].message);
    }
    ty_arena_clear(&a);
}

/* ---- features ---- */

/* Rows of CSV text through all features. */
static ty_err compute(struct ty_arena *a, const struct nn_model *m, const char *csv, float *floats,
                      int32_t *ids, float *labels, size_t *ret_rows, size_t *ret_bad)
{
    struct nn_scratch *s = nn_scratch_new(a, m);
    struct csv_reader *r = ty_new(a, struct csv_reader);
    assert_ok(csv_reader_init(r, a, ty_str_of(csv), ',', m->columns, m->column_count));
    assert_ok(csv_read(r, NN_BLOCK_ROWS, nn_scratch_columns(s), ret_rows));
    return nn_features_compute(m, s, *ret_rows, floats, ids, labels, ret_bad);
}

static void features_are_computed(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct nn_model *m;
    float floats[100], labels[10];
    int32_t ids[100];
    size_t rows, bad;
    assert_ok(parse(&a, MODEL, &m));
    assert_ok(compute(&a, m,
                      "1,2013-04-23 16:00:48 UTC,2,3,green,x\n"
                      "2,2000-02-29 00:00:00,,,purple,x\n",
                      floats, ids, labels, &rows, &bad));
    assert_true(floats[0] == 0.5f && floats[1] == 3); /* scaled, b */
    assert_true(floats[2] == 0.25f && floats[3] == 2);
    /* slots in the order of use: days, twice, known, hours */
    assert_int_equal(ids[0], 2); /* a Tuesday */
    assert_int_equal(ids[4], 2);
    assert_int_equal(ids[2], 1);
    assert_int_equal(ids[6], -1); /* no such word */
    assert_int_equal(ids[3], 16);
    uint64_t leaves[3] = {3, 3, fingerprint64(TY_STR("green"))}; /* leaves, not the cross */
    assert_int_equal(ids[1], cross_bucket(leaves, 3, 50, CROSS_HASH_KEY));
    assert_true(labels[0] == 1 && labels[1] == 2);
    ty_arena_clear(&a);
}

static void features_name_a_bad_row(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct nn_model *m;
    float floats[100], labels[10];
    int32_t ids[100];
    size_t rows, bad = 99;
    assert_ok(parse(&a, MODEL, &m));
    assert_err(TY_INVALID_ARGUMENT, compute(&a, m,
                                            "1,2013-04-23 16:00:48,2,3,green,x\n"
                                            "1,2013-04-23 1x:00:48,2,3,green,x\n"
                                            "1,na,2,3,green,x\n",
                                            floats, ids, labels, &rows, &bad));
    assert_int_equal(bad, 1);
    assert_message("'when' is '2013-04-23 1x:00:48', no time with an hour");
    assert_err(TY_INVALID_ARGUMENT, compute(&a, m, "1,2013-04-23 25:00:48,2,3,green,x\n", floats,
                                            ids, labels, &rows, &bad));
    assert_message("'hours' is 25, not from 0 to 23");
    assert_err(TY_INVALID_ARGUMENT, compute(&a, m, "inf,2013-04-23 20:00:48,2,3,green,x\n", floats,
                                            ids, labels, &rows, &bad));
    assert_message("label 'y' is inf, not finite");
    ty_arena_clear(&a);
}

static void labels_must_be_classes(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct nn_model *m;
    float floats[100], labels[10];
    int32_t ids[100];
    size_t rows, bad;
    char *text = replaced(&a, MODEL, "type: regression", "type: multiclass, classes: 3");
    text = replaced(&a, text, "dense: 1,", "dense: 3,");
    assert_ok(parse(&a, text, &m));
    assert_err(TY_INVALID_ARGUMENT, compute(&a, m, "3,2013-04-23 20:00:48,2,3,green,x\n", floats,
                                            ids, labels, &rows, &bad));
    assert_message("label 'y' is 3, not a class from 0 to 2");
    ty_arena_clear(&a);
}

/* ---- gradients ---- */

enum { ROWS = 12 };

struct toy {
    struct ty_arena arena;
    struct nn_model *model;
    struct tensor_team *team;
    struct nn_net *net;
    struct nn_rows rows;
    struct nn_param *params;
    size_t param_count;
};

static void toy_init(struct toy *t, const char *text, int threads)
{
    *t = (struct toy){0};
    assert_ok(parse(&t->arena, text, &t->model));
    const struct nn_model *m = t->model;
    t->team = tensor_team_new(threads);
    assert_ok(nn_net_new(m, ROWS, 4, 3, t->team, NULL, &t->net));
    t->param_count = nn_net_params(t->net, &t->params);
    t->rows =
        (struct nn_rows){.count = ROWS, .floats_each = m->slots_float, .ids_each = m->slots_id};
    t->rows.floats = ty_new_array(&t->arena, float, ROWS * m->slots_float);
    t->rows.ids = ty_new_array(&t->arena, int32_t, ROWS * m->slots_id);
    t->rows.labels = ty_new_array(&t->arena, float, ROWS * m->head_count);
    tensor_uniform(1, 1, -1, 1, t->rows.floats, ROWS * m->slots_float);
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < m->head_count; k++)
            t->rows.labels[i * m->head_count + k] =
                m->heads[k].type == NN_REGRESSION ? (float)i / 4 : (float)(i % 2);
        for (size_t k = 0; k < m->slots_id; k++) /* repeated ids, and one that is none */
            t->rows.ids[i * m->slots_id + k] = (int32_t)((i * 7 + k) % 5) - (i == 3);
    }
}

static void toy_clear(struct toy *t)
{
    nn_net_free(t->net);
    tensor_team_free(t->team);
    ty_arena_clear(&t->arena);
}

static double toy_loss(struct toy *t)
{
    struct nn_batch b = {.rows = &t->rows, .count = ROWS, .step = 5, .training = true};
    double sum = 0;
    const float *losses = nn_net_forward(t->net, &b).losses;
    for (size_t i = 0; i < ROWS; i++)
        sum += (double)losses[i];
    return sum / ROWS;
}

static double gradient_of(const struct nn_param *p, size_t i)
{
    if (!p->table)
        return (double)p->grad[i];
    for (size_t k = 0; k < p->row_count; k++)
        if (p->rows[k] == i / p->width)
            return (double)p->grad[k * p->width + i % p->width];
    return 0;
}

static void check_gradients(const char *text)
{
    struct toy t;
    toy_init(&t, text, 2);
    toy_loss(&t);
    nn_net_backward(t.net);
    for (size_t k = 0; k < t.param_count; k++) {
        struct nn_param *p = &t.params[k];
        size_t count = p->table && p->count > 5 * p->width ? 5 * p->width : p->count;
        for (size_t i = 0; i < count && !p->frozen; i++) {
            float keep = p->data[i], h = 2e-3f;
            double analytic = gradient_of(p, i);
            p->data[i] = keep + h;
            double up = toy_loss(&t);
            p->data[i] = keep - h;
            double down = toy_loss(&t);
            p->data[i] = keep;
            double numeric = (up - down) / (2 * (double)h);
            if (fabs(numeric - analytic) > 2e-3 * (1 + fabs(numeric)))
                fail_msg("%s[%zu]: %g by differences, %g computed", p->name.ptr, i, numeric,
                         analytic);
        }
    }
    toy_clear(&t);
}

static void gradients_of_a_regression(void **state)
{
    (void)state;
    check_gradients(MODEL);
}

static void gradients_of_all_layers(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    char *text = replaced(&a, MODEL, "    - {dense: 1, name: out}\n",
                          "    - {dense: 3, name: side, input: features, activation: sigmoid}\n"
                          "    - {add: , input: [h1, side], name: sum}\n"
                          "    - {concat: , input: [sum, h0], name: both}\n"
                          "    - {dropout: 0.3, name: drop}\n"
                          "    - {dense: 4, name: last, activation: tanh, batch_norm: true}\n"
                          "    - {dense: 1, name: out}\n"
                          "wide: {input: [crossed, scaled, known]}\n");
    text = replaced(&a, text, "type: regression", "type: binary, class_weights: [1, 3]");
    check_gradients(text);
    ty_arena_clear(&a);
}

/* Every layer of images; a convolution read twice, so that gradients are added, too. */
static void gradients_of_image_layers(void **state)
{
    (void)state;
    static const char model[] =
        "name: image\n"
        "parameters: {n: 6}\n"
        "input:\n"
        "  columns: [{name: y, type: int}, {name: a}, {name: b}, {name: c}, {name: d}, {name: e}, "
        "{name: f},\n"
        "            {name: g}, {name: h}, {name: i}, {name: j}, {name: k}, {name: l}]\n"
        "network:\n"
        "  input: [a, b, c, d, e, f, g, h, i, j, k, l]\n"
        "  layers:\n"
        "    - {dense: 60, name: wider, activation: tanh}\n"
        "    - {reshape: [5, 6, 2], name: image}\n"
        "    - {rescale: 0.5, offset: 0.1}\n"
        "    - {conv2d: 3, name: c1, padding: same, activation: tanh}\n"
        "    - {max_pool: 2, name: p1}\n"
        "    - {average_pool: 3, stride: 2, padding: same, input: c1, name: p2}\n"
        "    - {conv2d: 4, name: c2, size: 2, stride: 2, input: c1, activation: sigmoid}\n"
        "    - {batch_norm: true, name: norm}\n"
        "    - {flatten: , name: f1}\n"
        "    - {flatten: , input: p1, name: f2}\n"
        "    - {flatten: , input: p2, name: f3}\n"
        "    - {concat: , input: [f1, f2, f3], name: all}\n"
        "    - {dense: 3, name: logits}\n"
        "head: {type: multiclass, classes: 3, label: y, class_weights: [1, 2, 1]}\n";
    check_gradients(model);
}

/* Three heads of one network, weighted, one with class weights. */
static const char HEADS[] =
    "heads:\n"
    "  - {name: fare, input: out, label: y, loss: huber, weight: 0.5}\n"
    "  - {name: kind, input: kinds, type: multiclass, classes: 3, label: b, weight: 2,\n"
    "     class_weights: [1, 2, 0.5], metrics: [accuracy]}\n"
    "  - {name: paid, input: paid, type: binary, label: b}\n";

static char *heads_model(struct ty_arena *a)
{
    char *text = replaced(a, MODEL, "    - {dense: 1, name: out}\n",
                          "    - {dense: 1, name: out}\n"
                          "    - {dense: 3, name: kinds, input: h0}\n"
                          "    - {dense: 1, name: paid, input: h1}\n");
    text = replaced(a, text, "head: {type: regression, label: y, output: fare}\n", HEADS);
    return replaced(a, text, "input: [scaled, b, ", "input: [scaled, ");
}

static void gradients_of_several_heads(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    check_gradients(heads_model(&a));
    ty_arena_clear(&a);
}

static void heads_have_their_own_losses(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct toy t;
    toy_init(&t, heads_model(&a), 2);
    assert_int_equal(t.model->head_count, 3);
    assert_int_equal(t.model->logits_each, 5);
    assert_true(nn_is_label(t.model, 0) && nn_is_label(t.model, 3) && !nn_is_label(t.model, 2));
    struct nn_batch b = {.rows = &t.rows, .count = ROWS};
    struct nn_outputs out = nn_net_forward(t.net, &b);
    for (size_t i = 0; i < ROWS; i++) {
        const float *loss = out.head_losses + 3 * i;
        double sum = 0.5 * (double)loss[0] + 2 * (double)loss[1] + (double)loss[2];
        assert_true(fabs((double)out.losses[i] - sum) < 1e-5 * sum);
        const float *logits = out.logits + 5 * i;
        double z = (double)logits[4], y = (double)t.rows.labels[3 * i + 2];
        assert_true(fabs((double)loss[2] - (log1p(exp(-z)) + (1 - y) * z)) < 1e-5);
    }
    toy_clear(&t);
    ty_arena_clear(&a);
}

static void heads_with_mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"name: kind,", "name: fare,", "two heads are named 'fare'"},
        {"name: kind, ", "", "heads[1]: 'name' is missing"},
        {"input: kinds", "input: h1", "heads[1]: the layer 'h1' must have no activation"},
        {"input: kinds", "input: nobody", "there is no layer 'nobody'"},
        {"input: kinds", "input: paid", "the layer 'paid' gives 1 numbers and the head needs 3"},
        {"input: paid, ", "input: out, ", "'out' is a head's and is read by another, too"},
        {"- {dense: 1, name: paid, ", "- {dense: 1, name: extra}\n    - {dense: 1, name: paid, ",
         "the layer 'kinds' is a head's"},
        {"- {dense: 1, name: paid, ",
         "- {dense: 1, name: extra, input: h0}\n    - {dense: 1, name: paid, ",
         "the layer 'extra' is read by nothing"},
        {"class_weights: [1, 2, 0.5]", "class_weights: [1, 2]", "a number for each class"},
        {"class_weights: [1, 2, 0.5]", "class_weights: [1, 2, -1]", "must be 0 or more"},
        {"loss: huber", "classes: 3", "'classes' is not for a regression"},
        {"type: binary", "type: binary, classes: 3", "binary has two"},
        {"batch_size: 12", "metrics: [mse]", "'metrics' belong to each of the heads"},
        {"training:", "wide: {input: [b]}\ntraining:", "a wide part is for a single head"},
        {"training:", "head: {label: y}\ntraining:", "'head' or 'heads', not both"},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct ty_arena a = {0};
        struct nn_model *m;
        char *text = replaced(&a, heads_model(&a), cases[i].from, cases[i].to);
        assert_err(TY_INVALID_ARGUMENT, parse(&a, text, &m));
        assert_message(cases[i].message);
        ty_arena_clear(&a);
    }
}

/* b is normalised, then buckets of it, which only a second pass can measure. */
static void normalise_is_measured(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct nn_model *m;
    size_t rows, bad = 0, b1, b2;
    char *text = replaced(&a, MODEL, "  - {name: bucket,",
                          "  - {name: even, normalise: b}\n"
                          "  - {name: more, scale: even, subtract: -2}\n"
                          "  - {name: again, normalise: more}\n"
                          "  - {name: bucket,");
    text = replaced(&a, text, "input: [scaled, b, ", "input: [scaled, even, again, ");
    assert_ok(parse(&a, text, &m));
    for (b1 = 0; !ty_str_is(m->values[b1].name, "even"); b1++)
        ;
    for (b2 = b1; !ty_str_is(m->values[b2].name, "again"); b2++)
        ;
    struct nn_scratch *s = nn_scratch_new(&a, m);
    const char *csv = "1,2013-04-23 16:00:48,2,3,green,x\n1,2013-04-23 16:00:48,2,5,green,x\n"
                      "1,2013-04-23 16:00:48,2,10,green,x\n1,bad,2,1000,green,x\n";
    for (int pass = 0; pass < 2; pass++) {
        struct nn_measure sums[NN_MAX_VALUES] = {{0}};
        struct csv_reader *r = ty_new(&a, struct csv_reader);
        assert_true(nn_measure_needed(m));
        assert_ok(csv_reader_init(r, &a, ty_str_of(csv), ',', m->columns, m->column_count));
        assert_ok(csv_read(r, NN_BLOCK_ROWS, nn_scratch_columns(s), &rows));
        assert_err(TY_INVALID_ARGUMENT, nn_measure_add(m, s, rows, sums, &bad));
        assert_int_equal(bad, 3); /* not counted; those before it are */
        nn_measure_finish(m, sums);
    }
    assert_false(nn_measure_needed(m));
    assert_true(fabs((double)m->values[b1].subtract - 6) < 1e-6);
    assert_true(fabs((double)m->values[b1].divide - sqrt((9 + 1 + 16) / 3.0)) < 1e-6);
    assert_true(fabs((double)m->values[b2].subtract - 2) < 1e-6);
    assert_true(fabs((double)m->values[b2].divide - 1) < 1e-6);
    ty_arena_clear(&a);
}

/* ---- layers of a program's own: gain * x + offset of each unit, to twice the width ---- */

static size_t stretch_width(size_t in, const float *fields)
{
    return in * (size_t)fields[0];
}

static void stretch_forward(const struct nn_own_call *c)
{
    for (size_t i = 0; i < c->rows; i++)
        for (size_t k = 0; k < c->out; k++)
            c->y[i * c->out + k] =
                c->params[0][k] * c->x[i * c->in + k % c->in] + c->fields[1] * c->params[1][0];
}

static void stretch_backward(const struct nn_own_call *c)
{
    memset(c->grads[0], 0, c->out * sizeof(float));
    c->grads[1][0] = 0;
    memset(c->dx, 0, c->rows * c->in * sizeof(float));
    for (size_t i = 0; i < c->rows; i++)
        for (size_t k = 0; k < c->out; k++) {
            float dy = c->dy[i * c->out + k];
            c->grads[0][k] += dy * c->x[i * c->in + k % c->in];
            c->grads[1][0] += dy * c->fields[1];
            c->dx[i * c->in + k % c->in] += dy * c->params[0][k];
        }
}

static const struct nn_own_layer STRETCH = {
    .name = "stretch",
    .fields = {"times", "lift"},
    .defaults = {1, 0.5f},
    .width = stretch_width,
    .params = {{"gain", NN_ONE, NN_OUT, NN_GLOROT}, {"offset", NN_ONE, NN_ONE, 2}},
    .forward = stretch_forward,
    .backward = stretch_backward,
};

/* h1 is read by two, so that the layer's gradient is added to another's. */
static void own_layer_learns(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct nn_model *m;
    struct nn_net *n;
    struct saved_signature signature;
    char *text = replaced(&a, MODEL, "    - {dense: 1, name: out}\n",
                          "    - {stretch: 2, name: s, lift: 1 / 4}\n"
                          "    - {concat: , input: [s, h1], name: both}\n"
                          "    - {dense: 1, name: out}\n");
    assert_err(TY_INVALID_ARGUMENT, parse(&a, text, &m));
    assert_message("names no kind of layer");
    assert_ok(nn_layer_register(&STRETCH));
    assert_err(TY_ALREADY_EXISTS, nn_layer_register(&STRETCH));
    check_gradients(text);
    assert_ok(parse(&a, text, &m));
    assert_true(m->layers[3].channels == 6 && m->layers[3].fields[1] == 0.25f);
    struct tensor_team *team = tensor_team_new(1);
    assert_ok(nn_net_new(m, ROWS, 4, 3, team, NULL, &n));
    assert_err(TY_FAILED_PRECONDITION, nn_export(n, &a, graph_new(&a), &signature));
    assert_message("its kind, stretch, has no 'export'");
    nn_net_free(n);
    tensor_team_free(team);
    text = replaced(&a, text, "lift: 1 / 4", "times: 2");
    assert_err(TY_INVALID_ARGUMENT, parse(&a, text, &m));
    assert_message("stretch: leave its value empty");
    ty_arena_clear(&a);
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    struct toy one, four;
    toy_init(&one, MODEL, 1);
    toy_init(&four, MODEL, 4);
    assert_true(toy_loss(&one) == toy_loss(&four));
    nn_net_backward(one.net);
    nn_net_backward(four.net);
    for (size_t i = 0; i < one.param_count; i++) {
        const struct nn_param *p = &one.params[i], *q = &four.params[i];
        size_t count = p->table ? p->row_count * p->width : p->count;
        assert_memory_equal(p->data, q->data, p->count * sizeof(float));
        assert_memory_equal(p->grad, q->grad, count * sizeof(float));
    }
    toy_clear(&one);
    toy_clear(&four);
}

static const struct CMUnitTest tests[] = {
    TEST("model/is_read", model_is_read),
    TEST("model/mistakes_name_their_line", model_mistakes_name_their_line),
    TEST("model/of_images", model_of_images),
    TEST("features/are_computed", features_are_computed),
    TEST("features/name_a_bad_row", features_name_a_bad_row),
    TEST("features/labels_must_be_classes", labels_must_be_classes),
    TEST("gradients/of_a_regression", gradients_of_a_regression),
    TEST("gradients/of_all_layers", gradients_of_all_layers),
    TEST("gradients/of_image_layers", gradients_of_image_layers),
    TEST("gradients/of_several_heads", gradients_of_several_heads),
    TEST("heads/have_their_own_losses", heads_have_their_own_losses),
    TEST("heads/with_mistakes", heads_with_mistakes),
    TEST("features/normalise_is_measured", normalise_is_measured),
    TEST("own/layer_learns", own_layer_learns),
    TEST("net/threads_do_not_change_a_bit", threads_do_not_change_a_bit),
};
TEST_MAIN("nn", tests)

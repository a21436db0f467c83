/* own_layer.c -- a layer of one's own in C: x * sigmoid(beta x), "swish", with a beta that is
 * learned for each unit.
 *
 * The program registers the layer, checks its gradient by differences, trains a small model with it
 * and predicts with what was exported; TensorFlow loads the same folder.
 *
 *   build/own_layer DIR     leaves data, checkpoints, curves and the model in DIR */
#include "train/train.h"

#include <math.h>

/* ---- the layer ---- */

enum { BETA };

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static void swish_forward(const struct nn_own_call *c)
{
    for (size_t i = 0; i < c->rows * c->in; i++)
        c->y[i] = c->x[i] * sigmoid(c->params[BETA][i % c->in] * c->x[i]);
}

/* With s = sigmoid(beta x): dy/dx = s + beta x s (1 - s), dy/dbeta = x x s (1 - s). */
static void swish_backward(const struct nn_own_call *c)
{
    memset(c->grads[BETA], 0, c->in * sizeof(float));
    for (size_t i = 0; i < c->rows * c->in; i++) {
        float x = c->x[i], beta = c->params[BETA][i % c->in], s = sigmoid(beta * x);
        c->grads[BETA][i % c->in] += c->dy[i] * x * x * s * (1 - s);
        if (c->dx)
            c->dx[i] = c->dy[i] * (s + beta * x * s * (1 - s));
    }
}

static struct graph_out swish_export(struct graph *g, const char *scope, const float *fields,
                                     struct graph_out x, const struct graph_out *params)
{
    char name[256];
    (void)fields;
    snprintf(name, sizeof name, "%s/Mul", scope);
    struct graph_out y = graph_op2(g, "Mul", name, DTYPE_FLOAT, params[BETA], x);
    snprintf(name, sizeof name, "%s/Sigmoid", scope);
    y = graph_op1(g, "Sigmoid", name, DTYPE_FLOAT, y);
    snprintf(name, sizeof name, "%s/out", scope);
    return graph_op2(g, "Mul", name, DTYPE_FLOAT, x, y);
}

static const struct nn_own_layer SWISH = {
    .name = "swish",
    .params = {{"beta", NN_ONE, NN_IN, 1.0f}},
    .forward = swish_forward,
    .backward = swish_backward,
    .export = swish_export,
};

/* ---- a model that uses it: y = sin(3 a) + b ---- */

static const char MODEL[] = "name: waves\n"
                            "parameters: {epochs: 30}\n"
                            "input: {columns: [{name: y}, {name: a}, {name: b}]}\n"
                            "network:\n"
                            "  input: [a, b]\n"
                            "  layers:\n"
                            "    - {dense: 24, name: h}\n"
                            "    - {swish: , name: bend}\n"
                            "    - {dense: 1, name: out}\n"
                            "head: {type: regression, label: y, output: y}\n"
                            "training:\n"
                            "  optimizer: {type: adam, learning_rate: 0.02}\n"
                            "  batch_size: 32\n"
                            "  epochs: epochs\n"
                            "  metrics: [mae]\n";

static ty_err data_write(const char *path, int rows)
{
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return ty_fail_errno(errno, "cannot write '%s'", path);
    for (int i = 0; i < rows; i++) {
        double a = (i * 37 % 2000) / 1000.0 - 1, b = (i * 91 % 2000) / 1000.0 - 1;
        fprintf(f, "%.6f,%.6f,%.6f\n", sin(3 * a) + b, a, b);
    }
    return fclose(f) == 0 ? TY_OK : ty_fail_errno(errno, "cannot write '%s'", path);
}

/* ---- its gradient ---- */

enum { ROWS = 8 };

static double loss_of(struct nn_net *n, const struct nn_rows *rows)
{
    struct nn_batch b = {.rows = rows, .count = ROWS, .training = true};
    struct nn_outputs out = nn_net_forward(n, &b);
    double sum = 0;
    for (size_t i = 0; i < ROWS; i++)
        sum += (double)out.losses[i];
    return sum / ROWS;
}

/* The largest difference between the gradient and (loss(w + h) - loss(w - h)) / 2h, over all
 * weights of the model. */
static double gradient_error(struct nn_net *n, const struct nn_rows *rows)
{
    struct nn_param *params;
    size_t count = nn_net_params(n, &params);
    double worst = 0;
    loss_of(n, rows);
    nn_net_backward(n);
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < params[k].count; i++) {
            float *w = &params[k].data[i], keep = *w, h = 1e-2f;
            *w = keep + h;
            double up = loss_of(n, rows);
            *w = keep - h;
            double down = loss_of(n, rows);
            *w = keep;
            worst = fmax(worst, fabs((up - down) / (2 * (double)h) - (double)params[k].grad[i]));
        }
    return worst;
}

static ty_err gradient_check(void)
{
    struct ty_arena a = {0};
    struct nn_model *m;
    struct nn_net *n = NULL;
    float floats[ROWS * 2], labels[ROWS];
    struct nn_rows rows = {ROWS, 2, 0, floats, NULL, labels, NULL};
    struct tensor_team *team = tensor_team_new(1);
    for (size_t i = 0; i < ROWS; i++) {
        floats[2 * i] = (float)i / 4 - 1;
        floats[2 * i + 1] = (float)(i % 3) - 1;
        labels[i] = sinf(3 * floats[2 * i]);
    }
    ty_err err = nn_model_parse(&a, "waves", ty_str_of(MODEL), NULL, 0, &m);
    if (err == TY_OK)
        err = nn_net_new(m, ROWS, 2, 1, team, &n);
    if (err == TY_OK) {
        double worst = gradient_error(n, &rows);
        printf("gradient: off by %.1e at most\n", worst);
        if (!(worst < 1e-3))
            err = ty_fail(TY_INTERNAL, "the gradient is wrong");
    }
    nn_net_free(n);
    tensor_team_free(team);
    ty_arena_clear(&a);
    return err;
}

/* ---- from begin to end ---- */

static ty_err train(const char *dir)
{
    static struct train_options o = {
        .model = "waves", .model_text = MODEL, .seed = 1, .plot = true};
    struct train_result result;
    char data[PATH_MAX], ask[PATH_MAX];
    const char *asked = ask;
    snprintf(data, sizeof data, "%s/waves.csv", dir);
    snprintf(ask, sizeof ask, "%s/ask.csv", dir);
    ty_err err = ty_mkdirs(dir, 0755);
    if (err == TY_OK)
        err = data_write(data, 2000);
    if (err == TY_OK)
        err = data_write(ask, 5);
    o.train_paths[o.train_count++] = data;
    o.eval_paths[o.eval_count++] = data;
    o.output_dir = dir;
    if (err == TY_OK)
        err = train_run(&o, &result);
    if (err != TY_OK)
        return err;
    printf("loss %.5f after %" PRId64 " steps\n", result.loss, result.steps);
    fflush(stdout);
    return train_predict(result.export_dir, &asked, 1, 1, STDOUT_FILENO);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: own_layer DIR\n", stderr);
        return 2;
    }
    ty_err err = nn_layer_register(&SWISH);
    if (err == TY_OK)
        err = gradient_check();
    fflush(stdout);
    if (err == TY_OK)
        err = train(argv[1]);
    if (err != TY_OK)
        fprintf(stderr, "own_layer: %s\n", ty_err_message());
    return err == TY_OK ? 0 : 1;
}

/* test_tool.c -- build/train_tool: single steps at the command line, for
 * tests/clients/test_parity.py.
 *
 *   train_tool gradients MODEL CSV STEPS WEIGHTS OUT [name=value ...]
 *     for each step i: weights from the bundle WEIGHTS-i, the i-th batch of CSV in its order;
 *     prints the loss, writes gradients by name to the bundle OUT-i
 *   train_tool run MODEL CSV STEPS WEIGHTS OUT [name=value ...]
 *     weights from WEIGHTS-0, then STEPS steps; prints each loss; weights to the bundle OUT
 *   For a model of images CSV is their folder, and the i-th example is file 7 i of the sorted list.
 *
 * Not installed. */
#define TY_SEAM
#include "train/train_int.h"

static struct ty_arena arena;

static void must(ty_err err)
{
    if (err == TY_OK)
        return;
    fprintf(stderr, "%s: %s\n", ty_err_name(err), ty_err_message());
    exit(1);
}

struct tool {
    struct nn_model *model;
    struct tensor_team *team;
    struct train_data data;
    struct nn_net *net;
    struct nn_param *params;
    size_t param_count;
    int64_t steps;
    struct nn_rows images; /* of the batch */
    struct nn_pixels *pixels;
    float *floats;
};

static void images_init(struct tool *t, const char *folder)
{
    static _Atomic size_t room = SIZE_MAX;
    size_t n = (size_t)t->model->training.batch_size;
    must(train_pictures_load(t->model, &arena, folder, false, &room, &t->data, NULL));
    t->pixels = ty_new_array(&arena, struct nn_pixels, n);
    t->floats = ty_new_array(&arena, float, n *train_picture_floats(t->model));
    t->images =
        (struct nn_rows){.count = n, .labels = ty_new_array(&arena, float, n), .pixels = t->pixels};
}

/* Neighbours in the list are of one class; 7 is prime to the number of files. */
static void images_pick(struct tool *t, size_t first)
{
    struct image_room room = {0};
    for (size_t i = 0; i < t->images.count; i++) {
        size_t file = (first + i) * 7 % t->data.rows.count;
        must(train_picture_take(t->data.pictures, file, &room,
                                t->floats + i * train_picture_floats(t->model), &t->pixels[i]));
        t->images.labels[i] = t->data.rows.labels[file];
    }
    image_room_clear(&room);
}

static void tool_init(struct tool *t, int argc, char **argv)
{
    struct nn_setting settings[TRAIN_MAX_SETTINGS];
    size_t count = 0;
    for (int i = 7; i < argc && count < TRAIN_MAX_SETTINGS; i++) {
        ty_str value = ty_str_of(argv[i]), name;
        ty_str_split(&value, '=', &name);
        settings[count++] = (struct nn_setting){name, value};
    }
    ty_str text = train_builtin(argv[2]);
    if (text.ptr == NULL)
        must(ty_file_read(AT_FDCWD, argv[2], NN_MODEL_BYTES, &arena, &text));
    must(nn_model_parse(&arena, argv[2], text, settings, count, &t->model));
    must(ty_parse_i64(ty_str_of(argv[4]), &t->steps));
    t->team = tensor_team_new(2);
    const char *paths[] = {argv[3]};
    if (t->model->images.height > 0) {
        images_init(t, argv[3]);
    } else {
        must(train_data_measure(t->model, paths, 1, t->team));
        must(train_data_load(t->model, paths, 1, t->team, NULL, &t->data));
    }
    must(nn_net_new(t->model, (size_t)t->model->training.batch_size,
                    (size_t)t->model->training.shards, 1, t->team, NULL, &t->net));
    t->param_count = nn_net_params(t->net, &t->params);
    nn_flush_denormals();
}

static struct nn_batch batch_of(struct tool *t, int64_t step)
{
    size_t n = (size_t)t->model->training.batch_size;
    bool is_image = t->pixels != NULL;
    if (is_image)
        images_pick(t, (size_t)step * n);
    return (struct nn_batch){.rows = is_image ? &t->images : &t->data.rows,
                             .first = is_image ? 0 : (size_t)step * n,
                             .count = n,
                             .step = (uint64_t)step,
                             .training = true};
}

static double loss_of(const struct tool *t, const float *losses)
{
    double sum = 0;
    for (int64_t i = 0; i < t->model->training.batch_size; i++)
        sum += (double)losses[i];
    return sum / (double)t->model->training.batch_size;
}

static void bundle_write(const struct tool *t, const char *prefix, bool gradients)
{
    struct bundle_writer w;
    struct ty_buf data, index;
    bundle_writer_init(&w, &arena);
    ty_buf_init(&data, (size_t)1 << 31);
    ty_buf_init(&index, 1 << 24);
    for (size_t i = 0; i < t->param_count; i++) {
        const struct nn_param *p = &t->params[i];
        float *values = gradients && !p->frozen ? calloc(p->count, sizeof *values) : p->data;
        if (values != p->data && !p->table)
            memcpy(values, p->grad, p->count * sizeof *values);
        for (size_t k = 0; values != p->data && p->table && k < p->row_count; k++)
            memcpy(values + p->rows[k] * p->width, p->grad + k * p->width,
                   p->width * sizeof *values);
        ty_str bytes = {(const char *)values, p->count * sizeof *values};
        must(bundle_add(&w, p->name, DTYPE_FLOAT, &p->shape, bytes));
        ty_buf_adds(&data, bytes);
        if (values != p->data)
            free(values);
    }
    must(bundle_index(&w, &index));
    must(ty_buf_check(&data, "data"));
    must(
        ty_file_replace(AT_FDCWD, ty_format(&arena, "%s.index", prefix), ty_buf_str(&index), 0644));
    must(ty_file_replace(AT_FDCWD, ty_format(&arena, "%s.data-00000-of-00001", prefix),
                         ty_buf_str(&data), 0644));
    ty_buf_clear(&data);
    ty_buf_clear(&index);
}

static void weights_read(const struct tool *t, const char *prefix)
{
    size_t count;
    must(train_weights_load(prefix, t->net, &count));
    if (count != t->param_count) {
        fprintf(stderr, "%s has %zu of %zu tensors\n", prefix, count, t->param_count);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct tool t = {0};
    if (argc < 7)
        return 2;
    tool_init(&t, argc, argv);
    struct train_optimizer *o = train_optimizer_new(t.net, t.steps);
    bool free_run = strcmp(argv[1], "run") == 0;
    for (int64_t i = 0; i < t.steps; i++) {
        struct nn_batch b = batch_of(&t, i);
        if (!free_run || i == 0)
            weights_read(&t, ty_format(&arena, "%s-%" PRId64, argv[5], i));
        if (free_run)
            train_optimizer_ready(o, &b);
        printf("%.9g\n", loss_of(&t, nn_net_forward(t.net, &b).losses));
        nn_net_backward(t.net);
        if (free_run)
            train_optimizer_step(o, 1);
        else
            bundle_write(&t, ty_format(&arena, "%s-%" PRId64, argv[6], i), true);
    }
    train_optimizer_settle(o);
    if (free_run)
        bundle_write(&t, argv[6], false);
    train_optimizer_free(o);
    nn_net_free(t.net);
    train_data_clear(&t.data);
    tensor_team_free(t.team);
    ty_arena_clear(&arena);
    return 0;
}

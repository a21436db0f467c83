/* fuzz_model.c -- any bytes as a model file. What is read can be planned, computed, learned from
 * and exported, if it is small. */
#include "nn/nn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 5, SMALL = 300 };

static bool is_small(const struct nn_model *m)
{
    bool small = m->layer_count < 20 && m->logits_each < SMALL;
    for (size_t i = 0; i < m->layer_count; i++)
        small &= m->layers[i].channels < SMALL && m->layers[i].height < SMALL / 4 &&
                 m->layers[i].width < SMALL / 4;
    for (size_t i = 0; i < m->value_count; i++)
        small &= m->values[i].buckets < SMALL;
    return small;
}

static void rows_make(struct ty_arena *a, const struct nn_model *m, struct nn_rows *r)
{
    size_t pixels = m->images.height * m->images.width * m->images.channels;
    *r = (struct nn_rows){.count = ROWS, .floats_each = m->slots_float, .ids_each = m->slots_id};
    if (pixels > 0) {
        struct nn_pixels *images = ty_new_array(a, struct nn_pixels, ROWS);
        for (size_t i = 0; i < ROWS; i++)
            images[i].bytes = ty_new_array(a, uint8_t, pixels);
        r->pixels = images;
    }
    r->floats = ty_new_array(a, float, ROWS * m->slots_float + 1);
    r->ids = ty_new_array(a, int32_t, ROWS * m->slots_id + 1);
    r->labels = ty_new_array(a, float, ROWS * m->head_count);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < m->slots_id; k++)
            r->ids[i * m->slots_id + k] =
                (int32_t)((int64_t)i % (m->values[m->id_values[k]].buckets + 1)) - 1;
}

static void use(struct ty_arena *a, const struct nn_model *m)
{
    struct tensor_team *team = tensor_team_new(1);
    struct nn_rows rows;
    struct nn_net *n;
    struct saved_signature signature;
    rows_make(a, m, &rows);
    if (nn_net_new(m, ROWS, (size_t)m->training.shards, 1, team, &n) == TY_OK) {
        struct nn_batch b = {.rows = &rows, .count = ROWS, .training = true};
        (void)nn_net_forward(n, &b);
        nn_net_backward(n);
        ty_assert(nn_export(n, a, graph_new(a), &signature) == TY_OK);
        nn_net_free(n);
    }
    tensor_team_free(team);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena a = {0};
    struct nn_model *m;
    struct nn_setting set = {TY_STR("size"), TY_STR("3")};
    ty_str text = {(const char *)data, size};
    if (nn_model_parse(&a, "fuzz", text, &set, size % 2, &m) == TY_OK && is_small(m))
        use(&a, m);
    ty_arena_clear(&a);
    return 0;
}

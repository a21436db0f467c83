/* layer_pixels.c -- the first layer of a model of images: an example's pixels, 0 to 255, as they
 * were resized. Nothing is learned and no gradient goes further. */
#include "nn/nn_int.h"

static ty_err pixels_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    (void)r, (void)object, (void)l;
    return TY_OK; /* the section input has it all */
}

static ty_err pixels_shape(struct nn_reader *r, struct nn_layer *l)
{
    const struct nn_images *i = &r->model->images;
    l->height = i->height;
    l->width = i->width;
    l->channels = i->channels;
    return TY_OK;
}

static void pixels_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    size_t width = nn_layer_width(l);
    float *y = s->y[nn_layer_index(n, l)];
    for (size_t i = 0; i < s->rows; i++, y += width) {
        const struct nn_pixels *p = &n->batch.rows->pixels[nn_shard_pick(n, s->first + i)];
        if (p->floats)
            memcpy(y, p->floats, width * sizeof *y);
        for (size_t k = 0; p->floats == NULL && k < width; k++)
            y[k] = (float)p->bytes[k];
    }
}

static void pixels_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    (void)n, (void)l, (void)s;
}

/* Images of any size (batch, height, width, channels), resized as they were for training. */
static struct graph_out pixels_export(struct nn_exporter *x, const struct nn_layer *l,
                                      const struct graph_out *inputs)
{
    const struct nn_images *i = &x->net->model->images;
    const char *op = i->nearest ? "ResizeNearestNeighbor" : "ResizeBilinear";
    int32_t size[2] = {(int32_t)i->height, (int32_t)i->width};
    struct graph_node *node = graph_node(x->graph, op, nn_export_name(x, l->name, op));
    (void)inputs;
    graph_input(node, x->image);
    graph_input(node, graph_const(x->graph, nn_export_name(x, l->name, "size"), DTYPE_INT32,
                                  &SHAPE(2), size));
    graph_attr_type(node, "T", DTYPE_FLOAT);
    graph_attr_bool(node, "align_corners", false);
    graph_attr_bool(node, "half_pixel_centers", true);
    return graph_out(node, 0);
}

const struct nn_layer_kind nn_layer_pixels = {
    .name = "pixels",
    .read = pixels_read,
    .shape = pixels_shape,
    .forward = pixels_forward,
    .backward = pixels_backward,
    .export = pixels_export,
};

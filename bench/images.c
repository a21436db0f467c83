/* images.c -- how many images a second src/images decodes and resizes on one core, the best of
 * several passes. bench/images.py draws the files and runs TensorFlow beside it.
 *
 *   bench_images load|decode|resize SIDE FILE...   load is both */
#define TY_SEAM
#include "images/images.h"

enum { PASSES = 7, CHANNELS = 3 };

static const struct image_options options = {.channels = CHANNELS};
static struct ty_arena arena;
static struct image_room room;

static void must(ty_err err)
{
    if (err == TY_OK)
        return;
    fprintf(stderr, "%s: %s\n", ty_err_name(err), ty_err_message());
    exit(1);
}

/* Processor time: what else runs on the machine does not count. */
static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct work {
    ty_str *files;
    struct image *images; /* decoded before, for resize */
    size_t count;
    uint32_t side;
    float *out;
};

static void load_pass(const struct work *w)
{
    uint64_t warnings = 0;
    for (size_t i = 0; i < w->count; i++)
        must(image_load(&room, w->files[i], &options, IMAGE_BILINEAR, w->side, w->side, w->out,
                        &warnings));
}

static void decode_pass(const struct work *w)
{
    struct image m;
    for (size_t i = 0; i < w->count; i++)
        must(image_decode_room(&room, w->files[i], &options, &m));
}

static void resize_pass(const struct work *w)
{
    for (size_t i = 0; i < w->count; i++)
        image_resize(&w->images[i], IMAGE_BILINEAR, w->side, w->side, w->out);
}

static double images_a_second(void (*pass)(const struct work *w), const struct work *w)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < PASSES; i++) {
        int64_t start = cpu_ns();
        pass(w);
        int64_t took = cpu_ns() - start;
        best = took < best ? took : best;
    }
    return (double)w->count / ((double)best / 1e9);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*pass)(const struct work *w);
    } kinds[] = {{"load", load_pass}, {"decode", decode_pass}, {"resize", resize_pass}};
    int64_t side = 0;
    for (size_t k = 0; k < TY_COUNT(kinds) && argc > 3; k++) {
        if (strcmp(argv[1], kinds[k].name) != 0)
            continue;
        must(ty_parse_i64(ty_str_of(argv[2]), &side));
        struct work w = {.count = (size_t)argc - 3, .side = (uint32_t)side};
        w.files = ty_new_array(&arena, ty_str, w.count);
        w.images = ty_new_array(&arena, struct image, w.count);
        w.out = ty_new_array(&arena, float, (size_t)(side * side * CHANNELS));
        for (size_t i = 0; i < w.count; i++) {
            must(ty_file_read(AT_FDCWD, argv[3 + i], (size_t)1 << 30, &arena, &w.files[i]));
            must(image_decode(&arena, w.files[i], &options, &w.images[i]));
        }
        printf("%.1f\n", images_a_second(kinds[k].pass, &w));
        image_room_clear(&room);
        ty_arena_clear(&arena);
        return 0;
    }
    fprintf(stderr, "usage: bench_images load|decode|resize SIDE FILE...\n");
    return 2;
}

/* test_tool.c -- build/images_tool: images at the command line, for tests/clients/test_images.py.
 *
 * Each command is a row of the table below: what it reads from a file or stdin and writes to a file
 * or stdout, so that real TensorFlow can judge. Not installed. */
#define TY_SEAM
#include "images/images.h"

static const size_t LIMIT = (size_t)1 << 30;

static struct ty_arena arena;

static void must(ty_err err)
{
    if (err == TY_OK)
        return;
    fprintf(stderr, "%s: %s\n", ty_err_name(err), ty_err_message());
    exit(1);
}

static int64_t number(const char *text)
{
    int64_t value;
    must(ty_parse_i64(ty_str_of(text), &value));
    return value;
}

static void output(const char *path, const void *bytes, size_t size)
{
    must(ty_file_replace(AT_FDCWD, path, (ty_str){bytes, size}, 0644));
}

static struct image decoded(const char *channels, const char *path)
{
    ty_str file;
    struct image_options options = {.channels = (uint32_t)number(channels)};
    struct image image;
    must(ty_file_read(AT_FDCWD, path, LIMIT, &arena, &file));
    must(image_decode(&arena, file, &options, &image));
    return image;
}

/* decode CHANNELS FILE OUT: the pixels; prints height, width, channels, warnings. */
static void decode_print(char **args)
{
    struct image m = decoded(args[0], args[1]);
    output(args[2], m.pixels, (size_t)m.height * m.width * m.channels);
    printf("%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", m.height, m.width, m.channels,
           m.warnings);
}

/* resize CHANNELS FILE bilinear|nearest HEIGHT WIDTH OUT: float32. */
static void resize_print(char **args)
{
    ty_str file;
    struct image_options options = {.channels = (uint32_t)number(args[0])};
    uint32_t height = (uint32_t)number(args[3]), width = (uint32_t)number(args[4]);
    struct image_room room = {0};
    uint64_t warnings = 0;
    size_t count = (size_t)height * width * options.channels;
    float *out = ty_new_array(&arena, float, count);
    must(ty_file_read(AT_FDCWD, args[1], LIMIT, &arena, &file));
    must(image_load(&room, file, &options,
                    strcmp(args[2], "nearest") == 0 ? IMAGE_NEAREST : IMAGE_BILINEAR, height, width,
                    out, &warnings));
    output(args[5], out, count * sizeof *out);
    image_room_clear(&room);
}

/* png CHANNELS FILE OUT: decoded and written again as a PNG. */
static void png_copy(char **args)
{
    struct image m = decoded(args[0], args[1]);
    struct ty_buf b;
    ty_buf_init(&b, LIMIT);
    image_encode_png(&b, &m);
    must(ty_buf_check(&b, "the PNG"));
    output(args[2], b.ptr, b.len);
    ty_buf_clear(&b);
}

static void files_print(const char *what, const struct image_set *s)
{
    for (size_t i = 0; i < s->count; i++)
        printf("%s " TY_STR_FMT " " TY_STR_FMT "\n", what,
               TY_STR_ARG(s->classes[s->files[i].class_id]), TY_STR_ARG(s->files[i].path));
}

/* split ROOT SEED FRACTION: paths on stdin, a line each; prints class and path of both parts. */
static void split_print(char **args)
{
    struct ty_buf b;
    ty_buf_init(&b, LIMIT);
    char block[1 << 16];
    ssize_t n;
    while ((n = read(0, block, sizeof block)) > 0)
        ty_buf_add(&b, block, (size_t)n);
    must(ty_buf_check(&b, "stdin"));
    size_t count = 0;
    for (size_t i = 0; i < b.len; i++)
        count += b.ptr[i] == '\n';
    ty_str *paths = ty_new_array(&arena, ty_str, count), rest = ty_buf_str(&b);
    for (size_t i = 0; i < count; i++)
        ty_str_split(&rest, '\n', &paths[i]);
    struct image_set all, training, validation;
    must(image_set_index(&arena, ty_str_of(args[0]), paths, count, &all));
    image_set_shuffle(&all, (uint32_t)number(args[1]));
    must(image_set_split(&all, strtod(args[2], NULL), &training, &validation));
    files_print("training", &training);
    files_print("validation", &validation);
    ty_buf_clear(&b);
}

static const struct {
    const char *name;
    int args;
    void (*run)(char **args);
} commands[] = {
    {"decode", 3, decode_print},
    {"resize", 6, resize_print},
    {"png", 3, png_copy},
    {"split", 3, split_print},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < TY_COUNT(commands); i++)
        if (argc > 1 && strcmp(argv[1], commands[i].name) == 0 && argc == 2 + commands[i].args) {
            commands[i].run(argv + 2);
            ty_arena_clear(&arena);
            return 0;
        }
    fprintf(stderr, "usage: images_tool COMMAND ARGUMENT...; see src/images/test_tool.c\n");
    return 2;
}

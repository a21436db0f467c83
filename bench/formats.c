/* formats.c -- how fast src/formats reads: megabytes a second of one core's time, the best of
 * several passes. bench/formats.py makes the files and runs TensorFlow beside it.
 *
 *   bench_formats csv FILE       taxi rows: fare, time, four coordinates, passengers, key
 *   bench_formats tfrecord FILE  framing and checksums alone
 *   bench_formats example FILE   TFRecords of tf.Examples, decoded into five features */
#define TY_SEAM
#include "formats/formats.h"

enum { PASSES = 7, ROWS = 1024 };

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

/* A pass returns how many rows or records it read. */
static size_t csv_pass(ty_str text)
{
    enum { COLUMNS = 8 };
    static const struct csv_column columns[COLUMNS] = {
        {.type = CSV_FLOAT}, {.type = CSV_STRING}, {.type = CSV_FLOAT}, {.type = CSV_FLOAT},
        {.type = CSV_FLOAT}, {.type = CSV_FLOAT},  {.type = CSV_FLOAT}, {.type = CSV_STRING}};
    static float floats[COLUMNS][ROWS];
    static ty_str strings[COLUMNS][ROWS];
    static struct csv_reader r;
    union csv_values out[COLUMNS];
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].type == CSV_FLOAT)
            out[i].floats = floats[i];
        else
            out[i].strings = strings[i];
    struct ty_arena arena = {0};
    must(csv_reader_init(&r, &arena, text, ',', columns, COLUMNS));
    size_t total = 0, rows;
    ty_err err;
    while ((err = csv_read(&r, ROWS, out, &rows)) == TY_OK)
        total += rows;
    if (err != TY_OUT_OF_RANGE)
        must(err);
    ty_arena_clear(&arena);
    return total;
}

static size_t tfrecord_pass(ty_str text)
{
    struct tfrecord_reader r = {.file = text};
    ty_str record;
    size_t total = 0;
    ty_err err;
    while ((err = tfrecord_read(&r, &record)) == TY_OK)
        total++;
    if (err != TY_OUT_OF_RANGE)
        must(err);
    return total;
}

static size_t example_pass(ty_str text)
{
    static const struct example_feature features[] = {
        {{"fare", 4}, EXAMPLE_FLOAT, 1, 1, false},
        {{"pickup_datetime", 15}, EXAMPLE_BYTES, 1, 1, false},
        {{"coordinates", 11}, EXAMPLE_FLOAT, 4, 4, false},
        {{"passengers", 10}, EXAMPLE_INT64, 1, 1, false},
        {{"key", 3}, EXAMPLE_BYTES, 1, 1, false},
    };
    float fare, coordinates[4];
    int64_t passengers;
    ty_str when, key;
    struct example_slot slots[] = {{.floats = &fare},
                                   {.bytes = &when},
                                   {.floats = coordinates},
                                   {.ints = &passengers},
                                   {.bytes = &key}};
    struct ty_arena arena = {0};
    struct example_schema schema;
    must(example_schema_init(&schema, &arena, features, TY_COUNT(features)));
    struct tfrecord_reader r = {.file = text};
    ty_str record;
    size_t total = 0;
    while (tfrecord_read(&r, &record) == TY_OK) {
        must(example_decode(&schema, record, slots));
        total++;
    }
    ty_arena_clear(&arena);
    return total;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        size_t (*pass)(ty_str text);
    } kinds[] = {{"csv", csv_pass}, {"tfrecord", tfrecord_pass}, {"example", example_pass}};
    for (size_t k = 0; k < TY_COUNT(kinds) && argc == 3; k++) {
        if (strcmp(argv[1], kinds[k].name) != 0)
            continue;
        struct ty_arena arena = {0};
        ty_str text;
        must(ty_file_read(AT_FDCWD, argv[2], (size_t)1 << 31, &arena, &text));
        int64_t best = INT64_MAX;
        size_t count = 0;
        for (int i = 0; i < PASSES; i++) {
            int64_t start = cpu_ns();
            count = kinds[k].pass(text);
            int64_t took = cpu_ns() - start;
            best = took < best ? took : best;
        }
        printf("%.1f %zu\n", (double)text.len / 1e6 / ((double)best / 1e9), count);
        ty_arena_clear(&arena);
        return 0;
    }
    fprintf(stderr, "usage: bench_formats csv|tfrecord|example FILE\n");
    return 2;
}

/* fuzz_csv.c -- any bytes as a CSV text of three columns.
 *
 * What must hold: the same rows come out whatever the batch, and from pieces (csv_split) if the
 * text has no bad row; every way to scan finds the same separators. */
#define TY_SEAM
#include "formats/formats_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 256, PARTS = 3 };
struct sums {
    size_t rows, bad;
    uint64_t hash;
};

static void rows_add(struct sums *s, const float *f, const ty_str *t, const int64_t *i, size_t rows)
{
    for (size_t k = 0; k < rows; k++) {
        uint32_t bits;
        memcpy(&bits, &f[k], sizeof bits);
        uint64_t row =
            fingerprint_cat64(fingerprint_cat64(bits, fingerprint64(t[k])), (uint64_t)i[k]);
        s->hash = fingerprint_cat64(s->hash, row);
    }
    s->rows += rows;
}

static void text_read(ty_str text, size_t from, size_t to, size_t batch, struct sums *s)
{
    static const struct csv_column columns[3] = {
        {.type = CSV_FLOAT}, {.type = CSV_STRING}, {.type = CSV_INT64}};
    static struct csv_reader r;
    static float floats[ROWS];
    static ty_str strings[ROWS];
    static int64_t ints[ROWS];
    union csv_values out[3] = {{.floats = floats}, {.strings = strings}, {.ints = ints}};
    struct ty_arena a = {0};
    ty_assert(csv_reader_init(&r, &a, text, ',', columns, 3) == TY_OK);
    r.skip_bad_rows = true;
    r.offset = from;
    r.end = to;
    size_t rows;
    ty_err err;
    while ((err = csv_read(&r, batch, out, &rows)) == TY_OK)
        rows_add(s, floats, strings, ints, rows);
    ty_assert(err == TY_OUT_OF_RANGE && r.offset == to);
    s->bad += r.bad_rows;
    ty_arena_clear(&a);
}

static void scanners_compare(ty_str text)
{
    csv_scanner *const *all = csv_scanners();
    uint32_t *want = NULL;
    size_t count = 0;
    for (size_t k = 0; all[k]; k++) {
        struct csv_scan scan = {.separator = ','};
        uint32_t *at = malloc((text.len + CSV_BLOCK) * sizeof *at);
        ty_assert(at);
        size_t n = all[k](&scan, text.ptr, text.len, at);
        ty_assert(!want || (n == count && memcmp(at, want, n * sizeof *at) == 0));
        count = n;
        free(want);
        want = at;
    }
    free(want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ty_str text = {(const char *)data, size};
    struct sums whole = {0}, one = {0}, pieces = {0};
    size_t starts[PARTS + 1];
    scanners_compare(text);
    text_read(text, 0, size, ROWS, &whole);
    text_read(text, 0, size, 1, &one);
    ty_assert(memcmp(&whole, &one, sizeof one) == 0);
    csv_split(text, PARTS, starts);
    for (size_t i = 0; i < PARTS; i++)
        text_read(text, starts[i], starts[i + 1], ROWS, &pieces);
    ty_assert(whole.bad || memcmp(&whole, &pieces, sizeof pieces) == 0);
    ty_assert(csv_whole(text) <= size);
    struct ty_arena a = {0};
    ty_str *fields;
    size_t count, used;
    if (csv_row(&a, text, ',', &fields, &count, &used) == TY_OK)
        ty_assert(used <= size && count > 0);
    ty_arena_clear(&a);
    return 0;
}

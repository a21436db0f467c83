/* canvas.c -- a small picture: smooth lines, discs, letters of font.def, and the PNG file of it. */
#include "train/train_int.h"

#include <math.h>
#include <zlib.h>

enum { GLYPH_ROWS = 9, GLYPH_COLUMNS = 5, MOST_PIXELS = 1 << 26 };

static const struct glyph {
    char letter;
    const char *rows[GLYPH_ROWS];
} GLYPHS[] = {
#define GLYPH(letter, ...) {letter, {__VA_ARGS__}},
#include "train/font.def"
#undef GLYPH
};

void canvas_init(struct canvas *c, int width, int height, uint32_t colour)
{
    ty_assert(width > 0 && height > 0 && (int64_t)width * height <= MOST_PIXELS);
    *c = (struct canvas){.width = width, .height = height};
    c->pixels = malloc((size_t)width * (size_t)height * 3);
    ty_assert(c->pixels);
    canvas_box(c, 0, 0, width, height, colour);
}

void canvas_clear(struct canvas *c)
{
    free(c->pixels);
    c->pixels = NULL;
}

/* Lay a colour over a pixel, `share` of it. */
static void blend(struct canvas *c, int x, int y, uint32_t colour, double share)
{
    if (x < 0 || y < 0 || x >= c->width || y >= c->height || !(share > 0))
        return;
    uint8_t *p = c->pixels + ((size_t)y * (size_t)c->width + (size_t)x) * 3;
    for (int i = 0; i < 3; i++) {
        double to = (double)(colour >> (16 - 8 * i) & 255);
        p[i] = (uint8_t)lround(p[i] + (to - p[i]) * (share < 1 ? share : 1));
    }
}

void canvas_box(struct canvas *c, int x, int y, int width, int height, uint32_t colour)
{
    for (int j = y; j < y + height; j++)
        for (int i = x; i < x + width; i++)
            blend(c, i, j, colour, 1);
}

/* How far a point is from the line between two others. */
static double distance(double px, double py, const double from[2], const double to[2])
{
    double dx = to[0] - from[0], dy = to[1] - from[1], length = dx * dx + dy * dy;
    double t = length > 0 ? ((px - from[0]) * dx + (py - from[1]) * dy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(px - from[0] - t * dx, py - from[1] - t * dy);
}

/* A pixel whose middle is within the line's half width has all of its colour; over the next pixel
 * the colour fades: that is what makes it smooth. */
void canvas_line(struct canvas *c, const double from[2], const double to[2], double width,
                 uint32_t colour)
{
    double reach = width / 2 + 1;
    int left = (int)floor(fmin(from[0], to[0]) - reach),
        right = (int)ceil(fmax(from[0], to[0]) + reach);
    int top = (int)floor(fmin(from[1], to[1]) - reach),
        bottom = (int)ceil(fmax(from[1], to[1]) + reach);
    for (int y = top < 0 ? 0 : top; y <= bottom && y < c->height; y++)
        for (int x = left < 0 ? 0 : left; x <= right && x < c->width; x++)
            blend(c, x, y, colour, width / 2 + 0.5 - distance(x, y, from, to));
}

static const struct glyph *glyph_of(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        letter = (char)(letter - 'A' + 'a');
    for (size_t i = 0; i < TY_COUNT(GLYPHS); i++)
        if (GLYPHS[i].letter == letter)
            return &GLYPHS[i];
    return NULL;
}

int canvas_text_width(const char *text, int size)
{
    return (int)strlen(text) * (GLYPH_COLUMNS + 1) * size - size;
}

void canvas_text(struct canvas *c, int x, int y, const char *text, int size, uint32_t colour)
{
    for (; *text; text++, x += (GLYPH_COLUMNS + 1) * size) {
        const struct glyph *g = glyph_of(*text);
        if (g == NULL && *text != ' ')
            canvas_box(c, x, y, GLYPH_COLUMNS * size, 7 * size, colour);
        for (int j = 0; g && j < GLYPH_ROWS; j++)
            for (int i = 0; i < GLYPH_COLUMNS; i++)
                if (g->rows[j][i] == '#')
                    canvas_box(c, x + i * size, y + j * size, size, size, colour);
    }
}

/* ---- PNG: a signature, then chunks of length, name, data and checksum, numbers big-endian ---- */

static void be32(struct ty_buf *b, uint32_t x)
{
    const uint8_t bytes[4] = {(uint8_t)(x >> 24), (uint8_t)(x >> 16), (uint8_t)(x >> 8),
                              (uint8_t)x};
    ty_buf_add(b, bytes, sizeof bytes);
}

static void chunk(struct ty_buf *b, const char name[4], const void *data, size_t size)
{
    be32(b, (uint32_t)size);
    uLong crc = crc32(0, (const Bytef *)name, 4);
    crc = crc32(crc, data, (uInt)size);
    ty_buf_add(b, name, 4);
    ty_buf_add(b, data, size);
    be32(b, (uint32_t)crc);
}

/* Each row begins with a byte that names its filter: 0, none. */
ty_err canvas_png(const struct canvas *c, struct ty_buf *b)
{
    size_t line = (size_t)c->width * 3, size = (line + 1) * (size_t)c->height;
    uLongf packed_size = compressBound(size);
    uint8_t *plain = malloc(size), *packed = malloc(packed_size);
    struct ty_buf head;
    ty_assert(plain && packed);
    for (size_t y = 0; y < (size_t)c->height; y++) {
        plain[y * (line + 1)] = 0;
        memcpy(plain + y * (line + 1) + 1, c->pixels + y * line, line);
    }
    int status = compress2(packed, &packed_size, plain, size, Z_BEST_SPEED);
    ty_buf_init(&head, 100);
    be32(&head, (uint32_t)c->width);
    be32(&head, (uint32_t)c->height);
    ty_buf_add(&head, "\x08\x02\x00\x00\x00", 5); /* 8 bits of red, green and blue */
    ty_buf_add(b, "\x89PNG\r\n\x1a\n", 8);
    chunk(b, "IHDR", head.ptr, head.len);
    chunk(b, "IDAT", packed, packed_size);
    chunk(b, "IEND", "", 0);
    ty_buf_clear(&head);
    free(plain);
    free(packed);
    return status == Z_OK ? ty_buf_check(b, "a picture")
                          : ty_fail(TY_INTERNAL, "zlib: %s", zError(status));
}

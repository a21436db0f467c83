/* images_int.h -- what the files of images share. */
#ifndef TY_IMAGES_INT_H
#define TY_IMAGES_INT_H

#include "images/images.h"

#include <jpeglib.h>
#include <png.h>

/* ---- library.c: libjpeg-turbo and libpng, loaded at the first file of their kind ---- */

struct jpeg_library {
#define JPEG(name) __typeof__(name) *name;
#include "images/libraries.def"
#undef JPEG
};
struct png_library {
#define PNG(name) __typeof__(name) *name;
#include "images/libraries.def"
#undef PNG
};
/* TY_FAILED_PRECONDITION, naming the package, if it cannot be loaded. */
TY_NODISCARD ty_err jpeg_library_get(const struct jpeg_library **ret_library);
TY_NODISCARD ty_err png_library_get(const struct png_library **ret_library);
/* Fill slots[i] with the function names[i] of a library; for tests, too. */
TY_NODISCARD ty_err library_load(const char *file, const char *package, const char *const *names,
                                 void **slots, size_t count);

/* ---- decode.c ---- */

/* One decoding: what is asked for, and where the pixels go. */
struct decode {
    ty_str file;
    const struct image_options *options;
    uint8_t *(*take)(struct decode *d, size_t size); /* NULL if there is no room */
    struct ty_arena *arena;
    struct image_room *room;
    struct image image; /* what is known of the result */
};
/* Judge the size that a file's head claims, and take memory for it: d->image has height, width and
 * channels, and gets its pixels. */
TY_NODISCARD ty_err decode_size(struct decode *d);
/* Each sets d->image. */
TY_NODISCARD ty_err jpeg_decode(struct decode *d);
TY_NODISCARD ty_err png_decode(struct decode *d);

#endif

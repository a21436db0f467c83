/* images.h -- image files into pixels, pixels into a network's input, and which image is of which
 * class: as tf.io.decode_jpeg, decode_png, tf.image.resize and Keras's
 * image_dataset_from_directory (2.15) do it, to the bit.
 *
 * Everything works on bytes and paths the caller already holds; nothing here opens a file, so one
 * code path serves local disk, gs:// and the tests.
 *
 * Where to start: image_set_index and image_set_split over a list of paths, then image_load for
 * each file. image_decode alone gives the pixels; image_encode_png writes some.
 * Who frees: pixels belong to the arena or the room they were put in (struct image_room is the only
 * heap memory: image_room_clear). A set and its names belong to the arena; paths are borrowed.
 * Threads: calls share nothing but the two libraries, which are loaded once, at the first file of
 * their kind (a start of the binary loads neither). A room belongs to one thread.
 * Errors: TY_DATA_LOSS, with the reason, for a file that is damaged or cut short;
 * TY_INVALID_ARGUMENT for one that is neither JPEG nor PNG; TY_RESOURCE_EXHAUSTED for one that is
 * larger than allowed; TY_FAILED_PRECONDITION, naming the Debian package, if a library is missing.
 * What libjpeg and libpng only warn of (a flipped bit in the picture) decodes, as it does in
 * TensorFlow, and is counted.
 * One test: build/test_images jpeg/cut_anywhere_is_refused. */
#ifndef TY_IMAGES_H
#define TY_IMAGES_H

#include "base/base.h"

/* ---- decoding ---- */

/* Height and width are at most this, whatever most_pixels says (libjpeg reads none larger). */
enum { IMAGE_MOST_SIDE = 65500 };
/* height * width at most, unless the caller says otherwise: 200 MB of pixels in colour, and 400 MB
 * more while a progressive JPEG is decoded. */
enum { IMAGE_MOST_PIXELS = 1 << 26 };

/* Pixels: (height, width, channels) bytes, rows without gaps. */
struct image {
    uint8_t *pixels;
    uint32_t height, width;
    uint32_t channels; /* 1: grey; 3: red, green, blue */
    uint32_t warnings; /* what the file's library complained of and yet decoded */
};
struct image_options {
    uint32_t channels;    /* of the result, 1 or 3; 0: grey files 1, all others 3 */
    uint64_t most_pixels; /* height * width at most; 0: IMAGE_MOST_PIXELS */
};
/* Memory that is used again for one image after another, and grows as they need it. Zero is empty
 * and ready. */
struct image_room {
    uint8_t *ptr;
    size_t size;
};
void image_room_clear(struct image_room *r);

/* What is in the file, from its first bytes alone: "JPEG", "PNG"; "GIF", "BMP", "WebP", "TIFF" to
 * say what else it may be; NULL if it is nothing we know. */
const char *image_kind(ty_str file);
/* Decode a whole JPEG or PNG file; pixels come from the arena. As TensorFlow does: alpha is
 * dropped, not blended; 16 bits a channel lose their lower eight; an EXIF orientation is not looked
 * at; CMYK becomes red, green and blue (one channel of it is TY_INVALID_ARGUMENT: TensorFlow
 * refuses, too). The size is judged before memory is taken. On failure *ret_image is untouched. */
TY_NODISCARD ty_err image_decode(struct ty_arena *a, ty_str file, const struct image_options *o,
                                 struct image *ret_image);
/* The same into the caller's memory; TY_OUT_OF_RANGE, saying how many bytes it takes, if the image
 * does not fit. */
TY_NODISCARD ty_err image_decode_into(uint8_t *pixels, size_t size, ty_str file,
                                      const struct image_options *o, struct image *ret_image);
/* The same into a room, valid until the room's next use. */
TY_NODISCARD ty_err image_decode_room(struct image_room *r, ty_str file,
                                      const struct image_options *o, struct image *ret_image);

/* ---- resizing ---- */

enum image_method { IMAGE_BILINEAR, IMAGE_NEAREST };
/* out (height, width, from->channels) is what tf.image.resize gives without antialias: pixels have
 * their centres in the middle, values stay 0..255 as float32. Exactly: the same operations on the
 * same floats, none fused. No side may be 0. */
void image_resize(const struct image *from, enum image_method method, uint32_t height,
                  uint32_t width, float *out);
void image_resize_plain(const struct image *from, enum image_method method, uint32_t height,
                        uint32_t width, float *out);

/* One example of a batch: decode into the room, resize into out (height, width, o->channels), as
 * image_dataset_from_directory does. o->channels must be 1 or 3. The image's warnings are added to
 * *warnings. Errors as image_decode; then `out` is untouched. */
TY_NODISCARD ty_err image_load(struct image_room *r, ty_str file, const struct image_options *o,
                               enum image_method method, uint32_t height, uint32_t width,
                               float *out, uint64_t *warnings);

/* ---- folders: the class of a file is the folder it is in ---- */

struct image_file {
    ty_str path; /* the caller's */
    uint32_t class_id;
};
struct image_set {
    struct image_file *files;
    size_t count;
    const ty_str *classes; /* alphabetical by bytes, as Python sorts; class_id is the place here */
    uint32_t class_count;
    size_t skipped; /* paths that Keras would not look at */
};
enum { IMAGE_MOST_CLASSES = 1 << 16 };
/* Does the name end as Keras wants it of an image: .jpg .jpeg .png .gif .bmp, in any case? */
bool image_name_fits(ty_str name);
/* Sort paths into classes: the first folder below `root` is the class, whatever lies deeper belongs
 * to it. As Keras does it, folders that begin with '.' and files directly in the root are passed
 * over, and so is a file whose name does not fit (.gif and .bmp are refused when they are decoded,
 * but take their part in the shuffle). Order: class,
 * folder, name. Every path must begin with root (a '/' at its end is optional). TY_INVALID_ARGUMENT
 * if one does not, if no image is left, or for more than IMAGE_MOST_CLASSES. */
TY_NODISCARD ty_err image_set_index(struct ty_arena *a, ty_str root, const ty_str *paths,
                                    size_t count, struct image_set *ret_set);
/* Put the files into the order Keras gives them with shuffle=True and this seed (numpy's
 * RandomState(seed).shuffle). Without it a split takes the last files of the last classes. */
void image_set_shuffle(struct image_set *s, uint32_t seed);
/* Which part of a set trains and which validates: the last int(fraction * count) files validate, as
 * with validation_split=fraction. Both results view the set's files. TY_INVALID_ARGUMENT if the
 * fraction is not between 0 and 1 or leaves either side empty. */
TY_NODISCARD ty_err image_set_split(const struct image_set *s, double fraction,
                                    struct image_set *ret_training,
                                    struct image_set *ret_validation);

/* ---- numpy's legacy random numbers, for those who must choose as numpy chose ---- */

enum { MT19937_WORDS = 624 };
struct mt19937 {
    uint32_t words[MT19937_WORDS];
    uint32_t next;
};
void mt19937_init(struct mt19937 *m, uint32_t seed);
uint32_t mt19937_next(struct mt19937 *m);
/* 0..most, each as likely; the numbers that RandomState.shuffle draws. */
uint64_t mt19937_upto(struct mt19937 *m, uint64_t most);

/* ---- writing ---- */

/* Append a PNG of 8 bits a channel. Ask ty_buf_check at the end. */
void image_encode_png(struct ty_buf *b, const struct image *from);

#endif

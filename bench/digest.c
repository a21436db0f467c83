/* digest.c -- what the bytes of an upload cost alone: MD5, CRC32C, a written file and a sync.
 *
 *   build/bench/digest FOLDER BYTES COUNT
 *
 * One pass over each piece, as a server that wastes nothing would do it. Prints seconds, and
 * seconds of CPU. */
#define TY_SEAM
#include "objects/objects_int.h"

#include "wire/wire.h"

enum { PIECE = 256 << 10 };

static ty_err write_one(const char *path, const char *bytes, int64_t size, unsigned *mix)
{
    struct md5 md5;
    unsigned char out[16];
    uint32_t crc = 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open '%s'", path);
    ty_err err = TY_OK;
    md5_init(&md5);
    for (int64_t at = 0; at < size && err == TY_OK; at += PIECE) {
        size_t n = size - at < PIECE ? (size_t)(size - at) : PIECE;
        md5_add(&md5, bytes + at, n);
        crc = wire_crc32c(crc, bytes + at, n);
        err = ty_write_all(fd, bytes + at, n);
    }
    if (err == TY_OK)
        err = ty_sync(fd);
    close(fd);
    md5_end(&md5, out);
    *mix ^= crc ^ out[0]; /* used, so that nothing is left out */
    return err;
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    int64_t size = 0, count = 0;
    if (argc != 4 || ty_parse_i64(ty_str_of(argv[2]), &size) != TY_OK || size < 1 ||
        ty_parse_i64(ty_str_of(argv[3]), &count) != TY_OK) {
        fprintf(stderr, "usage: %s FOLDER BYTES COUNT\n", argv[0]);
        return 2;
    }
    struct ty_arena a = {0};
    unsigned mix = 0;
    char *bytes = malloc((size_t)size);
    ty_assert(bytes);
    for (int64_t i = 0; i < size; i++)
        bytes[i] = (char)((uint64_t)i * 2654435761u >> 13);
    ty_err err = digest_load();
    int64_t start = ty_boot_ns(), start_cpu = cpu_ns();
    for (int64_t i = 0; i < count && err == TY_OK; i++)
        err = write_one(ty_format(&a, "%s/digest-%" PRId64, argv[1], i), bytes, size, &mix);
    if (err != TY_OK)
        fprintf(stderr, "digest: %s\n", ty_err_message());
    else
        printf("%.6f %.6f %u\n", (double)(ty_boot_ns() - start) / 1e9,
               (double)(cpu_ns() - start_cpu) / 1e9, mix & 1);
    free(bytes);
    ty_arena_clear(&a);
    return err == TY_OK ? 0 : 1;
}

/* objects.c -- how fast the store of objects itself is, without HTTP. Prints one line a figure.
 *
 *   build/bench/bench_objects [FOLDER [NAMES]]     default: a folder beside the program, 1,000,000
 *
 * Durable: every PUT is on disk before it counts. Beside the uploads stands what their bytes cost
 * alone: MD5 and CRC32C and a synced write of the same size. */
#define TY_SEAM
#include "objects/objects_int.h"

#include "wire/wire.h"

#include <pthread.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        if ((call) != TY_OK) {                                                                     \
            fprintf(stderr, "%s: %s\n", #call, ty_err_message());                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { SMALL = 4096, THREADS = 32, PUTS = 300, GETS = 20000, LARGE = 64 << 20, PIECE = 256 << 10 };

static struct objects *o;
static char *bytes;

static double seconds(void)
{
    return (double)ty_boot_ns() / 1e9;
}

static void put(const char *bucket, const char *name, size_t size)
{
    struct ty_arena a = {0};
    struct objects_upload *u;
    struct object made;
    struct object_target target = {.bucket = ty_str_of(bucket), .name = ty_str_of(name)};
    CHECK(objects_upload_begin(o, &target, &u));
    for (size_t at = 0; at < size; at += PIECE)
        CHECK(objects_upload_write(u, bytes + at, size - at < PIECE ? size - at : PIECE));
    CHECK(objects_upload_finish(u, &a, &made));
    objects_upload_free(u);
    ty_arena_clear(&a);
}

static void *put_small(void *arg)
{
    char name[64];
    for (int i = 0; i < PUTS; i++) {
        snprintf(name, sizeof name, "small/%d/%d", (int)(intptr_t)arg, i);
        put("bench", name, SMALL);
    }
    return NULL;
}

static void bench_put(int threads)
{
    pthread_t list[THREADS];
    double start = seconds();
    for (int i = 0; i < threads; i++)
        pthread_create(&list[i], NULL, put_small, (void *)(intptr_t)(i + threads * 100));
    for (int i = 0; i < threads; i++)
        pthread_join(list[i], NULL);
    printf("PUT 4 KB, %2d at once, durable     %9.0f /s\n", threads,
           threads * PUTS / (seconds() - start));
}

static void bench_get(void)
{
    struct ty_arena a = {0};
    struct object object;
    int fd;
    double start = seconds();
    for (int i = 0; i < GETS; i++) {
        char name[64];
        snprintf(name, sizeof name, "small/100/%d", i % PUTS);
        struct object_ref ref = {.bucket = TY_STR("bench"), .name = ty_str_of(name)};
        CHECK(objects_read(o, &a, ref, NULL, &object, &fd));
        close(fd);
        ty_arena_clear(&a);
    }
    printf("GET: row, open, compare            %9.1f us\n", (seconds() - start) / GETS * 1e6);
}

static void bench_large(const char *dir)
{
    double start = seconds();
    for (int i = 0; i < 4; i++)
        put("bench", "large", LARGE);
    double ours = 4.0 * LARGE / 1e6 / (seconds() - start);
    char path[512];
    snprintf(path, sizeof path, "%s/alone", dir);
    start = seconds();
    for (int i = 0; i < 4; i++) {
        struct md5 md5;
        unsigned char out[16];
        uint32_t crc = 0;
        md5_init(&md5);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        for (size_t at = 0; at < LARGE; at += PIECE) {
            md5_add(&md5, bytes + at, PIECE);
            crc = wire_crc32c(crc, bytes + at, PIECE);
            CHECK(ty_write_all(fd, bytes + at, PIECE));
        }
        CHECK(ty_sync(fd));
        close(fd);
        md5_end(&md5, out);
        bytes[0] = (char)(crc ^ out[0]);
    }
    double alone = 4.0 * LARGE / 1e6 / (seconds() - start);
    printf("PUT 64 MB                          %9.0f MB/s\n", ours);
    printf("MD5 + CRC32C + write + sync alone  %9.0f MB/s   ratio %.2f\n", alone, ours / alone);
    start = seconds();
    uint32_t crc = 0;
    for (int i = 0; i < 16; i++)
        crc = wire_crc32c(crc, bytes, LARGE);
    bytes[1] = (char)crc;
    printf("CRC32C                             %9.0f MB/s\n",
           16.0 * LARGE / 1e6 / (seconds() - start));
}

static void bench_sessions(void)
{
    char id[OBJECTS_SESSION_BYTES];
    struct object_target target = {.bucket = TY_STR("bench"), .name = TY_STR("resumable")};
    double start = seconds();
    enum { COUNT = 500 };
    for (int i = 0; i < COUNT; i++)
        CHECK(objects_session_create(o, &target, -1, NULL, NULL, id));
    printf("resumable session, one at a time   %9.0f /s\n", COUNT / (seconds() - start));
}

/* Files made behind our back: found by the first list, then listed from rows. */
static void bench_list(const char *dir, int names)
{
    struct bucket b = {.name = TY_STR("many")};
    char path[512];
    CHECK(objects_bucket_insert(o, &b));
    for (int i = 0; i < names; i++) {
        if (i % 1000 == 0) {
            snprintf(path, sizeof path, "%s/buckets/many/part-%04d", dir, i / 1000);
            CHECK(ty_mkdirs(path, 0700));
        }
        snprintf(path, sizeof path, "%s/buckets/many/part-%04d/%07d", dir, i / 1000, i);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
    }
    for (int pass = 0; pass < 2; pass++) {
        struct ty_arena a = {0};
        char token[OBJECTS_TOKEN_BYTES] = "";
        size_t count = 0;
        double start = seconds(), slowest = 0;
        do {
            struct object_page page;
            struct object_query query = {.bucket = TY_STR("many"), .token = ty_str_of(token)};
            double before = seconds();
            CHECK(objects_list(o, &a, &query, &page));
            if (seconds() - before > slowest)
                slowest = seconds() - before;
            count += page.item_count;
            snprintf(token, sizeof token, TY_STR_FMT, TY_STR_ARG(page.next_token));
            ty_arena_clear(&a);
        } while (token[0]);
        printf("list %zu names, pages of 1000, %s %6.1f s, slowest page %.0f ms\n", count,
               pass ? "from rows" : "all new  ", seconds() - start, slowest * 1e3);
    }
}

int main(int argc, char **argv)
{
    struct ty_arena a = {0};
    char *dir = ty_format(&a, "%s/objects-XXXXXX", argc > 1 ? argv[1] : ".");
    int64_t names = 1000000;
    if ((argc > 2 && ty_parse_i64(ty_str_of(argv[2]), &names) != TY_OK) || !mkdtemp(dir)) {
        fprintf(stderr, "usage: %s [FOLDER [NAMES]]\n", argv[0]);
        return 2;
    }
    bytes = malloc(LARGE);
    ty_assert(bytes);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    struct bucket b = {.name = TY_STR("bench")};
    CHECK(objects_open(dir, &o));
    CHECK(objects_bucket_insert(o, &b));
    bench_put(1);
    bench_put(8);
    bench_put(THREADS);
    bench_get();
    bench_large(dir);
    bench_sessions();
    bench_list(dir, (int)names);
    objects_close(o);
    CHECK(ty_remove_tree(AT_FDCWD, dir));
    ty_arena_clear(&a);
    free(bytes);
    return 0;
}

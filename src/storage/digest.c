/* digest.c -- MD5 and crc32c of what is moved, in one pass.
 *
 * MD5 is libcrypto's, loaded when the first hash is needed and not linked: a command that only
 * lists must start with few libraries (DESIGN.md). */
#include "storage/storage_int.h"

#include <dlfcn.h>

enum { PIECE_BYTES = 256 * 1024 };

static struct {
    int (*init)(void *state);
    int (*update)(void *state, const void *ptr, size_t len);
    int (*final)(unsigned char *out, void *state);
    ty_err err;
    char message[256];
} md5;

static void load(void)
{
    void *lib = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (lib != NULL) {
        *(void **)&md5.init = dlsym(lib, "MD5_Init");
        *(void **)&md5.update = dlsym(lib, "MD5_Update");
        *(void **)&md5.final = dlsym(lib, "MD5_Final");
    }
    if (md5.init != NULL && md5.update != NULL && md5.final != NULL)
        return;
    md5.err = TY_FAILED_PRECONDITION;
    snprintf(md5.message, sizeof(md5.message),
             "cannot load MD5 of libcrypto.so.3 (Debian package libssl3): %s",
             lib != NULL ? "a function is missing" : dlerror());
}

ty_err storage_digest_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return md5.err == TY_OK ? TY_OK : ty_fail(md5.err, "%s", md5.message);
}

void storage_digest_init(struct storage_digest *d)
{
    d->crc32c = 0;
    md5.init(d->md5_state);
}

void storage_digest_add(struct storage_digest *d, ty_str bytes)
{
    d->crc32c = wire_crc32c(d->crc32c, bytes.ptr, bytes.len);
    md5.update(d->md5_state, bytes.ptr, bytes.len);
}

static void base64_into(char *out, size_t room, const void *bytes, size_t len)
{
    struct ty_buf b;
    ty_buf_init(&b, 64);
    wire_base64_encode(&b, (ty_str){bytes, len});
    snprintf(out, room, "%s", b.ptr);
    ty_buf_clear(&b);
}

void storage_digest_end(struct storage_digest *d, struct storage_hashes *ret_hashes)
{
    uint32_t crc = d->crc32c;
    unsigned char big[4] = {(unsigned char)(crc >> 24), (unsigned char)(crc >> 16),
                            (unsigned char)(crc >> 8), (unsigned char)crc};
    ret_hashes->crc32c = crc;
    md5.final(ret_hashes->md5, d->md5_state);
    base64_into(ret_hashes->md5_text, sizeof(ret_hashes->md5_text), ret_hashes->md5, 16);
    base64_into(ret_hashes->crc32c_text, sizeof(ret_hashes->crc32c_text), big, 4);
}

ty_err storage_file_hashes(const char *path, struct storage_hashes *ret_hashes)
{
    ty_err err = storage_digest_load();
    if (err != TY_OK)
        return err;
    int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open '%s'", path);
    char *piece = malloc(PIECE_BYTES);
    ty_assert(piece != NULL);
    struct storage_digest d;
    storage_digest_init(&d);
    ssize_t n;
    while ((n = read(fd, piece, PIECE_BYTES)) > 0)
        storage_digest_add(&d, (ty_str){piece, (size_t)n});
    if (n < 0)
        err = ty_fail_errno(errno, "cannot read '%s'", path);
    free(piece);
    close(fd);
    if (err == TY_OK)
        storage_digest_end(&d, ret_hashes);
    return err;
}

ty_err storage_hashes_check(const struct storage_hashes *h, ty_str md5_text, ty_str crc32c_text,
                            const char *what)
{
    if (md5_text.len > 0 && !ty_str_is(md5_text, h->md5_text))
        return ty_fail(TY_DATA_LOSS,
                       "%s: the MD5 of what was moved is %s, the object's is " TY_STR_FMT, what,
                       h->md5_text, TY_STR_ARG(md5_text));
    if (crc32c_text.len > 0 && !ty_str_is(crc32c_text, h->crc32c_text))
        return ty_fail(TY_DATA_LOSS,
                       "%s: the crc32c of what was moved is %s, the object's is " TY_STR_FMT, what,
                       h->crc32c_text, TY_STR_ARG(crc32c_text));
    return TY_OK;
}

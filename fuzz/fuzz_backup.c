/* fuzz_backup.c -- any bytes as a backup: each entry's path is checked, its content read, the notes
 * parsed; or it is refused.
 *
 * Twice: as they are, and with a good checksum in each header, because hardly any input would get
 * past it by chance. */
#include "backup/backup_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
    ty_str bytes;
    size_t at;
};

static ty_err memory_read(void *arg, char *ptr, size_t len, size_t *ret_len)
{
    struct memory *m = arg;
    size_t n = m->bytes.len - m->at;
    n = n < len ? n : len;
    if (n)
        memcpy(ptr, m->bytes.ptr + m->at, n);
    m->at += n;
    *ret_len = n;
    return TY_OK;
}

static void read_entries(ty_str bytes)
{
    static struct tar_reader r;
    struct memory m = {bytes, 0};
    struct tar_entry e;
    tar_reader_init(&r, memory_read, &m);
    while (tar_next(&r, &e) == TY_OK) {
        char text[BACKUP_NOTE_BYTES];
        size_t n = 0;
        ty_assert(e.path.len <= TAR_PATH_BYTES && e.size >= 0);
        if (part_path_check(e.path, e.folder) == TY_OK)
            ty_assert(e.path.ptr[0] != '/' && !memmem(e.path.ptr, e.path.len, "/../", 4));
        if (tar_read(&r, text, sizeof text, &n) != TY_OK)
            break;
        ty_err ignored = head_check((ty_str){text, n});
        ignored = manifest_check(&r, (ty_str){text, n});
        (void)ignored;
    }
}

static void sign_header(char *block)
{
    char sum[8];
    unsigned total = 0;
    memcpy(block + 257,
           "ustar\0"
           "00",
           8);
    memset(block + 148, ' ', 8);
    for (int i = 0; i < TAR_BLOCK; i++)
        total += (unsigned char)block[i];
    snprintf(sum, sizeof sum, "%06o", total & 0777777);
    memcpy(block + 148, sum, 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ty_str bytes = {(const char *)data, size};
    struct ty_arena a = {0};
    read_entries(bytes);
    char *copy = ty_cstr(&a, bytes);
    for (size_t at = 0; at + TAR_BLOCK <= size; at += TAR_BLOCK)
        sign_header(copy + at);
    read_entries((ty_str){copy, size});
    ty_arena_clear(&a);
    return 0;
}

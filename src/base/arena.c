/* arena.c -- memory of one lifetime: allocate as you go, free it all at once.
 *
 * Chunks double up to 256 KiB, so a small request costs one malloc and a large one few. Something
 * larger than a chunk gets a chunk of its own. */
#include "base/base.h"

enum { FIRST_CHUNK = 2048, LARGEST_CHUNK = 256 * 1024, ALIGN = 16 };

struct ty_chunk {
    struct ty_chunk *next;
    size_t used, size;
    _Alignas(ALIGN) char data[];
};

void *ty_alloc(struct ty_arena *a, size_t size)
{
    ty_assert(size <= SIZE_MAX / 2);
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct ty_chunk *c = a->head;
    if (!c || c->size - c->used < size) {
        size_t next = c ? c->size * 2 : FIRST_CHUNK;
        if (next > LARGEST_CHUNK)
            next = LARGEST_CHUNK;
        if (next < size)
            next = size;
        c = malloc(sizeof *c + next);
        ty_assert(c);
        *c = (struct ty_chunk){.next = a->head, .size = next};
        a->head = c;
        a->total_bytes += next;
    }
    void *p = c->data + c->used;
    c->used += size;
    memset(p, 0, size);
    return p;
}

void *ty_alloc_array(struct ty_arena *a, size_t n, size_t size)
{
    size_t total;
    ty_assert(!__builtin_mul_overflow(n, size, &total));
    return ty_alloc(a, total);
}

ty_str ty_str_dup(struct ty_arena *a, ty_str s)
{
    return (ty_str){ty_cstr(a, s), s.len};
}

char *ty_cstr(struct ty_arena *a, ty_str s)
{
    char *copy = ty_alloc(a, s.len + 1);
    if (s.len)
        memcpy(copy, s.ptr, s.len);
    return copy;
}

char *ty_format(struct ty_arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    ty_assert(n >= 0);
    char *text = ty_alloc(a, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    return text;
}

void ty_arena_clear(struct ty_arena *a)
{
    while (a->head) {
        struct ty_chunk *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    a->total_bytes = 0;
}

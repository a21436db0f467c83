/* library.c -- libjpeg-turbo and libpng, loaded by a process that meets an image and by no other.
 *
 * Linking them would make every client command load three libraries more before main. */
#include "images/images_int.h"

#include <dlfcn.h>
#include <pthread.h>

struct library {
    const char *file, *package;
    const char *const *names;
    void **slots;
    size_t count;
    bool loaded; /* set last: whoever sees it set sees the slots */
};

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

ty_err library_load(const char *file, const char *package, const char *const *names, void **slots,
                    size_t count)
{
    void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return ty_fail(TY_FAILED_PRECONDITION, "cannot load %s (on Debian: apt install %s): %s",
                       file, package, dlerror());
    for (size_t i = 0; i < count; i++) {
        slots[i] = dlsym(lib, names[i]);
        if (!slots[i]) {
            dlclose(lib);
            return ty_fail(TY_FAILED_PRECONDITION,
                           "this %s has no '%s' (on Debian: apt install %s)", file, names[i],
                           package);
        }
    }
    return TY_OK; /* it stays: the slots point into it */
}

static ty_err library_need(struct library *l)
{
    if (__atomic_load_n(&l->loaded, __ATOMIC_ACQUIRE))
        return TY_OK;
    pthread_mutex_lock(&load_lock);
    ty_err err = TY_OK;
    if (!l->loaded)
        err = library_load(l->file, l->package, l->names, l->slots, l->count);
    if (err == TY_OK)
        __atomic_store_n(&l->loaded, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&load_lock);
    return err;
}

ty_err jpeg_library_get(const struct jpeg_library **ret_library)
{
    static const char *const names[] = {
#define JPEG(name) #name,
#include "images/libraries.def"
#undef JPEG
    };
    static union {
        struct jpeg_library library;
        void *slots[TY_COUNT(names)];
    } table;
    _Static_assert(sizeof table.library == sizeof table.slots, "one slot a function");
    static struct library jpeg = {"libjpeg.so.62", "libjpeg62-turbo", names,
                                  table.slots,     TY_COUNT(names),   false};
    ty_err err = library_need(&jpeg);
    if (err == TY_OK)
        *ret_library = &table.library;
    return err;
}

ty_err png_library_get(const struct png_library **ret_library)
{
    static const char *const names[] = {
#define PNG(name) #name,
#include "images/libraries.def"
#undef PNG
    };
    static union {
        struct png_library library;
        void *slots[TY_COUNT(names)];
    } table;
    _Static_assert(sizeof table.library == sizeof table.slots, "one slot a function");
    static struct library png = {"libpng16.so.16", "libpng16-16",   names,
                                 table.slots,      TY_COUNT(names), false};
    ty_err err = library_need(&png);
    if (err == TY_OK)
        *ret_library = &table.library;
    return err;
}

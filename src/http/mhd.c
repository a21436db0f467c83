/* mhd.c -- libmicrohttpd, loaded only by a process that serves.
 *
 * Linking it would pull gnutls and its dozen libraries into every client
 * command, 10 ms and many megabytes before main. The table holds each function
 * under its own name and type, so calls read mhd->MHD_queue_response(...). */
#include "http/http_int.h"

#include <dlfcn.h>

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mhd table;
static bool loaded;

static ty_err load_symbols(void)
{
    void *lib = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "cannot load libmicrohttpd (on Debian: apt install libmicrohttpd12): %s",
                       dlerror());
#define MHD_LOAD(name)                                                                             \
    *(void **)&table.name = dlsym(lib, #name);                                                     \
    if (!table.name)                                                                               \
        return ty_fail(TY_FAILED_PRECONDITION, "this libmicrohttpd has no '%s'", #name);
    MHD_FUNCTIONS(MHD_LOAD)
#undef MHD_LOAD
    loaded = true;
    return TY_OK;
}

ty_err mhd_load(const struct mhd **ret_mhd)
{
    pthread_mutex_lock(&load_lock);
    ty_err err = loaded ? TY_OK : load_symbols();
    pthread_mutex_unlock(&load_lock);
    if (err == TY_OK)
        *ret_mhd = &table;
    return err;
}

/* zmq.c -- libzmq, loaded only by a replica of a parameter-server job.
 *
 * Linking it would pull libsodium, libpgm and more into every command. The table holds each
 * function under its own name and type, so calls read z->zmq_send(...). */
#include "ps/ps_int.h"

#include <dlfcn.h>

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static struct zmq table;
static bool loaded;

static ty_err load_symbols(void)
{
    void *lib = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "cannot load ZeroMQ, which parameter servers need (on Debian: apt install "
                       "libzmq5): %s",
                       dlerror());
#define ZMQ_LOAD(name)                                                                             \
    *(void **)&table.name = dlsym(lib, #name);                                                     \
    if (!table.name)                                                                               \
        return ty_fail(TY_FAILED_PRECONDITION, "this libzmq has no '%s'", #name);
    ZMQ_FUNCTIONS(ZMQ_LOAD)
#undef ZMQ_LOAD
    loaded = true;
    return TY_OK;
}

ty_err zmq_load(const struct zmq **ret_zmq)
{
    pthread_mutex_lock(&load_lock);
    ty_err err = loaded ? TY_OK : load_symbols();
    pthread_mutex_unlock(&load_lock);
    if (err == TY_OK)
        *ret_zmq = &table;
    return err;
}

/* Queues are short: what does not fit is sent again by us. Nothing is queued for a peer that is not
 * connected, and nothing lingers. A ROUTER says when its peer is gone. */
static bool options_set(const struct zmq *z, void *socket, int type)
{
    enum { QUEUE = 64, RECONNECT_MS = 50, RECONNECT_MOST_MS = 500 };
    const struct {
        int name, value;
    } options[] = {{ZMQ_LINGER, 0},
                   {ZMQ_SNDHWM, QUEUE},
                   {ZMQ_RCVHWM, QUEUE},
                   {ZMQ_IPV6, 1},
                   {ZMQ_RECONNECT_IVL, RECONNECT_MS},
                   {ZMQ_RECONNECT_IVL_MAX, RECONNECT_MOST_MS},
                   {type == ZMQ_ROUTER ? ZMQ_ROUTER_MANDATORY : ZMQ_IMMEDIATE, 1}};
    const int64_t most = PS_FRAME_BYTES;
    for (size_t i = 0; i < TY_COUNT(options); i++)
        if (z->zmq_setsockopt(socket, options[i].name, &options[i].value, sizeof(int)) != 0)
            return false;
    return z->zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most) == 0;
}

/* This machine's own addresses stay on it; another's name means: listen everywhere, as TensorFlow
 * does. */
static void endpoint(const char *address, bool listens, char *out, size_t size)
{
    bool local = strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0;
    if (strncmp(address, "localhost:", 10) == 0)
        snprintf(out, size, "tcp://127.0.0.1%s", strrchr(address, ':'));
    else if (listens && !local)
        snprintf(out, size, "tcp://*%s", strrchr(address, ':'));
    else
        snprintf(out, size, "tcp://%s", address);
}

ty_err zmq_open(const struct zmq *z, void *context, int type, const char *address,
                void **ret_socket)
{
    char where[300];
    void *socket = z->zmq_socket(context, type);
    if (socket == NULL || !options_set(z, socket, type)) {
        ty_err err = ty_fail(TY_INTERNAL, "no socket: %s", z->zmq_strerror(z->zmq_errno()));
        if (socket)
            z->zmq_close(socket);
        return err;
    }
    endpoint(address, type == ZMQ_ROUTER, where, sizeof where);
    int rc = type == ZMQ_ROUTER ? z->zmq_bind(socket, where) : z->zmq_connect(socket, where);
    if (rc != 0) {
        ty_err err = ty_fail(TY_UNAVAILABLE, "cannot %s %s: %s",
                             type == ZMQ_ROUTER ? "listen at" : "connect to", address,
                             z->zmq_strerror(z->zmq_errno()));
        z->zmq_close(socket);
        return err;
    }
    *ret_socket = socket;
    return TY_OK;
}

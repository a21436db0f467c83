/* libmpi.c -- Open MPI's library: loaded by a process that mpirun or srun started and by no other,
 * and its two calls that could wait for ever. */
#include "crew/libmpi_int.h"

#include <dlfcn.h>

/* Global, for the library's own plug-ins look for its symbols. They are asked of the whole process:
 * of a program that is linked to libmpi itself (bench/distribute), the linker has copied its world
 * into the program. */
ty_err libmpi_load(const char *file, struct libmpi *ret_library)
{
    void *lib = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (!lib)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "cannot load %s, which carries training across machines (on Debian: apt "
                       "install libopenmpi3): %s",
                       file, dlerror());
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
#define MPI(name, arguments) {#name, &ret_library->name},
#include "crew/libmpi.def"
#undef MPI
        {"ompi_mpi_comm_world", &ret_library->world},
        {"ompi_mpi_byte", &ret_library->byte},
        {"ompi_mpi_errors_return", &ret_library->errors_return},
    };
    for (size_t i = 0; i < TY_COUNT(symbols); i++) {
        void *symbol = dlsym(RTLD_DEFAULT, symbols[i].name);
        if (!symbol)
            return ty_fail(TY_FAILED_PRECONDITION,
                           "this %s has no '%s' (Open MPI is needed; on Debian: apt install "
                           "libopenmpi3)",
                           file, symbols[i].name);
        memcpy(symbols[i].slot, &symbol, sizeof symbol);
    }
    return TY_OK;
}

ty_err libmpi_fail(const struct libmpi *lib, int code, const char *what)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    lib->MPI_Error_string(code, words, &len);
    return ty_fail(TY_UNAVAILABLE, "MPI at '%s': %.*s", what, len, words);
}

/* ---- calls with an end ---- */

/* Freed by whichever of the two threads is done with it last. */
struct errand {
    const struct libmpi *lib;
    int (*run)(const struct libmpi *lib);
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done, alone; /* alone: nobody waits any more */
    int result;
};

static void errand_free(struct errand *e)
{
    pthread_cond_destroy(&e->over);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static void *errand_thread(void *arg)
{
    struct errand *e = arg;
    int result = e->run(e->lib);
    pthread_mutex_lock(&e->lock);
    e->result = result;
    e->done = true;
    bool alone = e->alone;
    pthread_cond_signal(&e->over);
    pthread_mutex_unlock(&e->lock);
    if (alone)
        errand_free(e);
    return NULL;
}

static ty_err errand_run(const struct libmpi *lib, int (*run)(const struct libmpi *lib),
                         const char *what, int64_t most_ms)
{
    struct errand *e = calloc(1, sizeof *e);
    ty_assert(e);
    e->lib = lib;
    e->run = run;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->over, NULL);
    pthread_t thread;
    int no = pthread_create(&thread, NULL, errand_thread, e);
    if (no != 0) {
        errand_free(e);
        return ty_fail_errno(no, "cannot start a thread for MPI");
    }
    int64_t until_ms = ty_boot_ms() + most_ms, left_ms;
    pthread_mutex_lock(&e->lock);
    while (!e->done && (left_ms = until_ms - ty_boot_ms()) > 0)
        (void)ty_cond_wait_ms(&e->over, &e->lock, left_ms);
    bool done = e->done;
    e->alone = !done;
    pthread_mutex_unlock(&e->lock);
    if (!done) {
        pthread_detach(thread);
        return ty_fail(TY_DEADLINE_EXCEEDED, "%s did not end within %.1f s", what,
                       (double)most_ms / 1000);
    }
    pthread_join(thread, NULL);
    int result = e->result;
    errand_free(e);
    return result == MPI_SUCCESS ? TY_OK : libmpi_fail(lib, result, what);
}

/* One thread at a time calls, though not always the same one: "serialized". */
static int run_init(const struct libmpi *lib)
{
    int provided, code = lib->MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (code == MPI_SUCCESS && provided < MPI_THREAD_SERIALIZED)
        return MPI_ERR_OTHER;
    return code == MPI_SUCCESS ? lib->MPI_Comm_set_errhandler(lib->world, lib->errors_return)
                               : code;
}

static int run_finalize(const struct libmpi *lib)
{
    return lib->MPI_Finalize();
}

ty_err libmpi_init(const struct libmpi *lib, int64_t most_ms)
{
    return errand_run(lib, run_init, "MPI_Init", most_ms);
}

ty_err libmpi_finalize(const struct libmpi *lib, int64_t most_ms)
{
    return errand_run(lib, run_finalize, "MPI_Finalize", most_ms);
}

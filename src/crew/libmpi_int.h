/* libmpi_int.h -- Open MPI's library, loaded when asked for. For the files of crew.
 *
 * Of its binary interface (libmpi.so.40, Open MPI 3 to 5) what we use is declared here: its
 * headers would bring a Fortran compiler to every machine that builds us. Handles are addresses
 * inside the library; the fields of a status behind its error are the library's own. */
#ifndef TY_LIBMPI_INT_H
#define TY_LIBMPI_INT_H

#include "crew/crew_int.h"

typedef struct ompi_communicator_t *MPI_Comm;
typedef struct ompi_datatype_t *MPI_Datatype;
typedef struct ompi_errhandler_t *MPI_Errhandler;
typedef struct ompi_request_t *MPI_Request;
typedef struct {
    int MPI_SOURCE, MPI_TAG, MPI_ERROR;
    int cancelled;
    size_t count;
} MPI_Status;
enum {
    MPI_SUCCESS = 0,
    MPI_ERR_OTHER = 16,
    MPI_ERR_IN_STATUS = 18,
    MPI_THREAD_SERIALIZED = 2,
    MPI_MAX_ERROR_STRING = 256,
};

struct libmpi {
#define MPI(name, arguments) int(*name) arguments;
#include "crew/libmpi.def"
#undef MPI
    /* What mpi.h has as macros are addresses inside the library. */
    MPI_Comm world;
    MPI_Datatype byte;
    MPI_Errhandler errors_return;
};
/* TY_FAILED_PRECONDITION, naming the package, if it cannot be loaded. It stays loaded. */
TY_NODISCARD ty_err libmpi_load(const char *file, struct libmpi *ret_library);
/* MPI_Init_thread, MPI_Finalize: they wait for all ranks and know no end, so a thread waits in them
 * and we wait for that one. TY_DEADLINE_EXCEEDED: it is still in there, and MPI is of no use. */
TY_NODISCARD ty_err libmpi_init(const struct libmpi *lib, int64_t most_ms);
TY_NODISCARD ty_err libmpi_finalize(const struct libmpi *lib, int64_t most_ms);
/* An error of MPI's own, in words. */
ty_err libmpi_fail(const struct libmpi *lib, int code, const char *what);

#endif

/* libmpi_int.h -- Open MPI's library, loaded when asked for. For the files of crew. */
#ifndef TY_LIBMPI_INT_H
#define TY_LIBMPI_INT_H

#include "crew/crew_int.h"

#include <mpi.h>

struct libmpi {
#define MPI(name) __typeof__(name) *name;
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

/* machine_int.h -- what the files of machine share. */
#ifndef TY_MACHINE_INT_H
#define TY_MACHINE_INT_H

#include "machine/machine.h"

/* Add the NVIDIA devices that `library` finds. `visible`: a CUDA_VISIBLE_DEVICES to respect, or
 * NULL. */
void nvml_read(const char *library, const char *visible, struct machine_host *host);

#endif

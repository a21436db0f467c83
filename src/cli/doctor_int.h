/* doctor_int.h -- what the rows of trainyard doctor share.
 *
 * To add a row: a function doctor_<name> in one of doctor_*.c that calls doctor_found at least
 * once, and a line in doctor.def. A finding that is not good says in words what to do about it. */
#ifndef TY_DOCTOR_INT_H
#define TY_DOCTOR_INT_H

#include "cli/cli_int.h"

enum doctor_mark { DOCTOR_GOOD, DOCTOR_NOTE, DOCTOR_BAD };

struct doctor {
    struct cli *c; /* data_dir is set */
    struct ty_config config;
    bool server_answers; /* after the row `server` */
    json_t *findings;    /* {"check", "result", "detail"} */
    bool bad;
};
void doctor_found(struct doctor *d, enum doctor_mark mark, const char *check, const char *fmt, ...)
    TY_PRINTF(4, 5);

#define DOCTOR_ROW(name) void doctor_##name(struct doctor *d);
#include "cli/doctor.def"
#undef DOCTOR_ROW

#endif

/* joblog_int.h -- shared by the files of joblog. */
#ifndef TY_JOBLOG_INT_H
#define TY_JOBLOG_INT_H

#include "joblog/joblog.h"

enum {
    JOBLOG_HEAD_BYTES = 64,                                    /* more than any record's head */
    JOBLOG_LINE_BYTES = JOBLOG_TEXT_BYTES + JOBLOG_HEAD_BYTES, /* no record is longer */
};

#endif

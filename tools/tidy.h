/* tidy.h -- put before each file by ./check tidy: what clang's analyser cannot see from one file.
 *
 * An error code that goes into ty_fail or ty_wrap comes out again, and ty_fail_errno never gives TY_OK. Without this it
 * follows paths on which a call failed and yet succeeded, and finds outputs unset there. The seam is open because the
 * file itself may open it; whether it may is the compiler's and check_layers.py's to say. */
#define TY_SEAM
#include "base/base.h"
#undef TY_SEAM

#define ty_fail(code, ...) ((void)(ty_fail)(code, __VA_ARGS__), (code))
#define ty_fail_errno(n, ...) ((void)(ty_fail_errno)(n, __VA_ARGS__), TY_INTERNAL)
#define ty_wrap(err, ...)                                                                          \
    __extension__({                                                                                \
        ty_err wrapped_ = (err);                                                                   \
        (void)(ty_wrap)(wrapped_, __VA_ARGS__);                                                    \
        wrapped_;                                                                                  \
    })

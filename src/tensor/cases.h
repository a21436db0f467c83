/* cases.h -- the shapes that tests compare with the reference and bench/tensor times: the layers of
 * the reference trainers, a shard of a batch at a time, and odd ones. */
#ifndef TY_TENSOR_CASES_H
#define TY_TENSOR_CASES_H

#include "tensor/tensor.h"

/* GEMM_CASE(name, m, n, k) */
#define GEMM_CASES(X)                                                                              \
    X("taxifare h0, batch 32", 8, 32, 130)                                                         \
    X("taxifare h1, batch 32", 8, 8, 32)                                                           \
    X("taxifare fare, batch 32", 8, 1, 8)                                                          \
    X("taxifare h0, batch 1024", 256, 32, 130)                                                     \
    X("wide and deep h0, batch 128", 32, 128, 16)                                                  \
    X("wide and deep h1, batch 128", 32, 64, 128)                                                  \
    X("mnist dense, batch 64", 16, 128, 1600)                                                      \
    X("flowers dense, batch 32", 8, 128, 30976)                                                    \
    X("few rows", 7, 37, 4001)                                                                     \
    X("few columns and rows", 1001, 75, 14)                                                        \
    X("one", 1, 1, 1)                                                                              \
    X("odd", 7, 17, 5)                                                                             \
    X("odd and deep", 13, 33, 301)                                                                 \
    X("past the blocks", 101, 515, 257)                                                            \
    X("square 256", 256, 256, 256)                                                                 \
    X("square 512", 512, 512, 512)                                                                 \
    X("square 1024", 1024, 1024, 1024)

/* CONV_CASE(name, batch, size, in, filter, out, stride, same) */
#define CONV_CASES(X)                                                                              \
    X("flowers conv0", 8, 180, 3, 3, 16, 1, true)                                                  \
    X("flowers conv1", 8, 90, 16, 3, 32, 1, true)                                                  \
    X("flowers conv2", 8, 45, 32, 3, 64, 1, true)                                                  \
    X("mnist conv0", 16, 28, 1, 3, 32, 1, false)                                                   \
    X("mnist conv1", 16, 13, 32, 3, 64, 1, false)                                                  \
    X("stride 2", 2, 13, 5, 3, 7, 2, true)                                                         \
    X("stride 2, rows left over", 2, 14, 3, 3, 4, 2, false)                                        \
    X("stride 3, filter 2", 1, 11, 2, 2, 3, 3, true)                                               \
    X("filter 5", 2, 9, 3, 5, 18, 1, true)                                                         \
    X("filter as large as the image", 2, 4, 3, 4, 5, 1, false)                                     \
    X("one by one", 2, 6, 17, 1, 33, 1, true)

#endif

/* fuzz_cluster.c -- any bytes as TF_CONFIG.
 *
 * What must hold: a cluster that is taken has this task in it, or this process is alone. */
#define TY_SEAM
#include "train/train_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena a = {0};
    struct train_cluster c;
    enum train_strategy s;
    if (train_cluster_parse(&a, (ty_str){(const char *)data, size}, &c) == TY_OK) {
        ty_assert(c.alone || c.role == TRAIN_EVALUATOR || c.index < c.counts[c.role]);
        ty_assert(c.rank < c.trainers && c.name[0] != '\0');
        for (int role = 0; role < TRAIN_ROLES; role++)
            for (size_t i = 0; i < c.counts[role]; i++)
                ty_assert(strrchr(c.addresses[role][i], ':') != NULL);
        if (train_strategy_choose(&c, NULL, &s) == TY_OK)
            ty_assert((s == TRAIN_PARAMETER_SERVER) == (c.counts[TRAIN_PS] > 0));
    }
    ty_arena_clear(&a);
    return 0;
}

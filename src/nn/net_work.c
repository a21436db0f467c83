/* net_work.c -- who has done what: examples, bytes of gradients and CPU time of each replica.
 *
 * A replica is a rank of a crew, or a device of mirrored: a group of shards whose threads' time is
 * measured. TRAINYARD_TEST_ZERO_REPLICA=2 throws that replica's gradients away: a test that sees
 * the same weights with it as without has found a replica that does nothing. */
#include "nn/nn_int.h"

void nn_work_init(struct nn_net *n)
{
    const char *zeroed = getenv("TRAINYARD_TEST_ZERO_REPLICA");
    n->zeroed = zeroed ? (size_t)strtoul(zeroed, NULL, 10) : SIZE_MAX;
}

void nn_net_mirror(struct nn_net *n, size_t devices)
{
    ty_assert(n->crew == NULL && devices > 0 && devices <= NN_MAX_SHARDS);
    n->devices = devices;
}

int64_t nn_work_begin(const struct nn_net *n)
{
    return n->devices && n->batch.training ? ty_thread_ns() : 0;
}

void nn_work_end(const struct nn_net *n, struct nn_shard *s, int64_t began)
{
    if (n->devices && n->batch.training)
        s->cpu_ns += ty_thread_ns() - began;
}

static size_t replica_of(const struct nn_net *n, size_t shard)
{
    return n->devices ? shard * n->devices / n->shard_count
                      : (size_t)crew_owner(n->crew, shard, n->shard_count);
}

void nn_work_count(struct nn_net *n)
{
    for (size_t i = n->own_first; i < n->own_first + n->own_count; i++) {
        struct nn_shard *s = &n->shards[i];
        struct nn_work *w = &n->work[replica_of(n, i)];
        w->examples += s->rows;
        w->bytes += n->plain_count * sizeof(float);
        w->cpu_ns += s->cpu_ns;
        s->cpu_ns = 0;
        if (!n->summing)
            nn_work_drop(n, s, 0, n->plain_count);
    }
}

void nn_work_drop(struct nn_net *n, const struct nn_shard *s, size_t from, size_t count)
{
    if (replica_of(n, (size_t)(s - n->shards)) == n->zeroed)
        memset(s->grads + from, 0, count * sizeof *s->grads);
}

struct nn_work nn_net_work(const struct nn_net *n, size_t replica)
{
    return n->work[replica];
}

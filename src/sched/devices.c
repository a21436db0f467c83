/* devices.c -- which accelerators are whose.
 *
 * An attempt's row names those it holds, replica by replica: "0,1;2" are two for the first replica
 * and one for the second. So a server that comes back knows them, and `why` reads the same rows. */
#include "sched/sched_int.h"

enum { TEXT_BYTES = 64 * 1024 };

int devices_next(ty_str *text)
{
    while (text->len > 0) {
        size_t n = 0;
        int64_t index;
        while (n < text->len && text->ptr[n] != ',' && text->ptr[n] != ';')
            n++;
        ty_str word = {text->ptr, n};
        *text = ty_str_drop(*text, n < text->len ? n + 1 : n);
        if (ty_parse_i64(word, &index) == TY_OK && index >= 0 && index < MACHINE_DEVICES)
            return (int)index;
    }
    return -1;
}

/* One that is free, of the type that was asked for if there is one. */
static int take_one(struct devices *d, const struct machine_host *host, const char *type)
{
    int found = -1;
    for (int i = host->device_count - 1; i >= 0; i--) {
        int index = host->devices[i].index;
        if (d->taken[index])
            continue;
        if (found < 0 || machine_device_is(&host->devices[i], type) ||
            !machine_device_is(&host->devices[found], type))
            found = i;
    }
    if (found < 0)
        return -1;
    d->taken[host->devices[found].index] = true;
    return host->devices[found].index;
}

/* The devices of one replica. False: there are too few. */
static bool take_some(struct devices *d, const struct machine_host *host,
                      const struct sched_pool *p, struct ty_buf *b)
{
    for (int n = 0; n < p->devices; n++) {
        int index = take_one(d, host, p->type.accelerator);
        if (index < 0)
            return false;
        ty_buf_addf(b, "%s%d", n ? "," : "", index);
    }
    return true;
}

char *devices_take(struct devices *d, const struct machine_host *host, const json_t *spec)
{
    const json_t *pools = json_object_get(spec, "workerPoolSpecs");
    struct ty_buf b;
    bool enough = true, first = true;
    ty_buf_init(&b, TEXT_BYTES);
    for (size_t i = 0; enough && i < json_array_size(pools); i++) {
        struct sched_pool p;
        sched_pool_read(json_array_get(pools, i), &p);
        for (int64_t k = 0; enough && k < p.replicas; k++) {
            ty_buf_addz(&b, first ? "" : ";");
            first = false;
            enough = take_some(d, host, &p, &b);
        }
    }
    char *text = NULL;
    if (enough && !b.full)
        text = strdup(b.ptr ? b.ptr : "");
    else
        devices_give(d, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

void devices_hold(struct devices *d, ty_str text)
{
    for (int index; (index = devices_next(&text)) >= 0;)
        d->taken[index] = true;
}

void devices_give(struct devices *d, ty_str text)
{
    for (int index; (index = devices_next(&text)) >= 0;)
        d->taken[index] = false;
}

int devices_count(const struct machine_host *host, ty_str text)
{
    int count = 0;
    for (int index; (index = devices_next(&text)) >= 0;)
        for (int i = 0; i < host->device_count; i++)
            count += host->devices[i].index == index;
    return count;
}

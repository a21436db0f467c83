/* nvml.c -- NVIDIA devices, by the driver's own library, which a machine without them lacks.
 *
 * It is loaded at run time, asked and let go: the server stays small, and no header of NVIDIA's is
 * needed for five functions whose signatures are part of the library's stable interface. A library
 * that is there but refuses (driver and library of different versions, no permission) is worth a
 * line in the server's log, since the user believes to have a GPU. */
#include "machine/machine_int.h"

#include <ctype.h>
#include <dlfcn.h>

struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *ret_count);
    int (*handle)(unsigned index, void **ret_device);
    int (*name)(void *device, char *name, unsigned size);
    int (*memory)(void *device, struct nvml_memory *ret_memory);
};

static bool nvml_bind(void *lib, struct nvml *n)
{
    n->init = (int (*)(void))dlsym(lib, "nvmlInit_v2");
    n->shutdown = (int (*)(void))dlsym(lib, "nvmlShutdown");
    n->count = (int (*)(unsigned *))dlsym(lib, "nvmlDeviceGetCount_v2");
    n->handle = (int (*)(unsigned, void **))dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
    n->name = (int (*)(void *, char *, unsigned))dlsym(lib, "nvmlDeviceGetName");
    n->memory = (int (*)(void *, struct nvml_memory *))dlsym(lib, "nvmlDeviceGetMemoryInfo");
    return n->init && n->shutdown && n->count && n->handle && n->name && n->memory;
}

/* Is device `index` in a list as CUDA_VISIBLE_DEVICES has it? CUDA stops at the first entry that
 * is no device, such as -1; so an empty list has none. Ids (GPU-…) are not looked up: all devices
 * count then. */
static bool is_visible(const char *visible, unsigned index)
{
    ty_str rest = ty_str_of(visible), word;
    bool more = true;
    if (visible == NULL || isalpha((unsigned char)visible[0]))
        return true;
    while (more) {
        int64_t n;
        more = ty_str_split(&rest, ',', &word);
        if (ty_parse_i64(ty_str_trim(word), &n) != TY_OK || n < 0)
            return false;
        if (n == index)
            return true;
    }
    return false;
}

static void read_devices(const struct nvml *n, const char *visible, struct machine_host *host)
{
    unsigned count = 0;
    int status = n->count(&count);
    for (unsigned i = 0; status == 0 && i < count && i < MACHINE_DEVICES; i++) {
        struct machine_device device = {.index = (int)i};
        struct nvml_memory memory = {0};
        void *handle;
        if (!is_visible(visible, i))
            continue;
        /* A device that has fallen off the bus has no handle; the others work. */
        if (n->handle(i, &handle) != 0 || n->name(handle, device.name, sizeof device.name) != 0 ||
            n->memory(handle, &memory) != 0) {
            log_warn("machine.device", "index=%u error='NVML cannot read it'", i);
            continue;
        }
        device.name[sizeof device.name - 1] = '\0';
        device.memory_bytes = memory.total < INT64_MAX ? (int64_t)memory.total : INT64_MAX;
        host->devices[host->device_count++] = device;
    }
    if (status != 0)
        log_warn("machine.devices", "error='NVML cannot count them' status=%d", status);
}

void nvml_read(const char *library, const char *visible, struct machine_host *host)
{
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    struct nvml n;
    if (lib == NULL)
        return; /* no driver */
    int status = nvml_bind(lib, &n) ? n.init() : -1;
    if (status == 0) {
        read_devices(&n, visible, host);
        n.shutdown();
    } else {
        log_warn("machine.nvml", "library=%s error='it does not start' status=%d", library, status);
    }
    dlclose(lib);
}

/* ---- names ---- */

/* The next word of a device's or a type's name. */
static bool next_word(ty_str *s, ty_str *ret_word)
{
    size_t from = 0, to;
    while (from < s->len && !isalnum((unsigned char)s->ptr[from]))
        from++;
    for (to = from; to < s->len && isalnum((unsigned char)s->ptr[to]);)
        to++;
    *ret_word = (ty_str){s->ptr + from, to - from};
    *s = ty_str_drop(*s, to);
    return to > from;
}

static bool same_word(ty_str a, ty_str b)
{
    return a.len == b.len && strncasecmp(a.ptr, b.ptr, a.len) == 0;
}

bool machine_device_is(const struct machine_device *device, const char *accelerator)
{
    ty_str type = ty_str_of(accelerator), name = ty_str_of(device->name), model, word;
    if (!ty_str_starts(type, TY_STR("NVIDIA_")))
        return false;
    type = ty_str_drop(type, strlen("NVIDIA_"));
    if (ty_str_starts(type, TY_STR("TESLA_")))
        type = ty_str_drop(type, strlen("TESLA_"));
    bool found = !next_word(&type, &model); /* what follows the model is the size of its memory */
    while (!found && next_word(&name, &word))
        found = same_word(model, word);
    return found;
}

/* fake_nvml.c -- a libnvidia-ml for tests: as many devices as FAKE_NVML says ("2"), the last of
 * them out of order if it says so ("2,broken"), or a library that does not start ("dead"). */
#include "base/base.h"

struct fake_memory {
    unsigned long long total, free, used;
};
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *ret_count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret_device);
int nvmlDeviceGetName(void *device, char *name, unsigned size);
int nvmlDeviceGetMemoryInfo(void *device, struct fake_memory *ret_memory);

enum { NVML_SUCCESS = 0, NVML_ERROR_DRIVER_NOT_LOADED = 9, NVML_ERROR_GPU_IS_LOST = 15 };

static char places[64]; /* a device's handle is an address here */

static const char *setting(void)
{
    const char *text = getenv("FAKE_NVML");
    return text ? text : "0";
}

int nvmlInit_v2(void)
{
    return strcmp(setting(), "dead") == 0 ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_SUCCESS;
}

int nvmlShutdown(void)
{
    return NVML_SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *ret_count)
{
    *ret_count = (unsigned)strtoul(setting(), NULL, 10);
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret_device)
{
    unsigned count;
    nvmlDeviceGetCount_v2(&count);
    if (strstr(setting(), "broken") && index + 1 == count)
        return NVML_ERROR_GPU_IS_LOST;
    *ret_device = &places[index];
    return NVML_SUCCESS;
}

int nvmlDeviceGetName(void *device, char *name, unsigned size)
{
    snprintf(name, size, "%s", device == &places[1] ? "NVIDIA A100-SXM4-80GB" : "Tesla T4");
    return NVML_SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, struct fake_memory *ret_memory)
{
    (void)device;
    *ret_memory = (struct fake_memory){.total = 16ull << 30, .free = 16ull << 30};
    return NVML_SUCCESS;
}

/* messages.c -- the CustomJob message: what a request may contain, and what we do with each field.
 *
 * Two tables on purpose. The wire_message tables are Google's protos, field by field, and serve any
 * path on which a message occurs (EnvVar occurs twice). vertex_fields is ours: a path and its
 * treatment. A row there stands for everything below it, each leaf of the message has exactly one
 * row, and docs/compat.md has the same rows: test_vertex.c holds the three together. */
#include "vertex/vertex_int.h"

#define STRINGS WIRE_STRING, WIRE_REPEATED
#define END_FIELD                                                                                  \
    {                                                                                              \
        NULL, WIRE_STRING, 0, 0, 0, NULL, NULL                                                     \
    }

/* Ceilings on strings, in bytes. Where Google names a limit in characters, validate.c counts. */
enum { SHORT_BYTES = 256, NAME_BYTES = 1024, VALUE_BYTES = 32768 };

static const struct wire_enum_value accelerator_types[] = {
    {"ACCELERATOR_TYPE_UNSPECIFIED", 0},
    {"NVIDIA_TESLA_K80", 1},
    {"NVIDIA_TESLA_P100", 2},
    {"NVIDIA_TESLA_V100", 3},
    {"NVIDIA_TESLA_P4", 4},
    {"NVIDIA_TESLA_T4", 5},
    {"TPU_V2", 6},
    {"TPU_V3", 7},
    {"NVIDIA_TESLA_A100", 8},
    {"NVIDIA_A100_80GB", 9},
    {"TPU_V4_POD", 10},
    {"NVIDIA_L4", 11},
    {"TPU_V5_LITEPOD", 12},
    {"NVIDIA_H100_80GB", 13},
    {"NVIDIA_H100_MEGA_80GB", 14},
    {"NVIDIA_H200_141GB", 15},
    {"NVIDIA_B200", 16},
    {"NVIDIA_GB200", 17},
    {"NVIDIA_RTX_PRO_6000", 18},
    {NULL, 0},
};

static const struct wire_enum_value strategies[] = {
    {"STRATEGY_UNSPECIFIED", 0}, {"ON_DEMAND", 1}, {"LOW_COST", 2}, {"STANDARD", 3}, {"SPOT", 4},
    {"FLEX_START", 6},           {NULL, 0},
};

static const struct wire_enum_value job_states[] = {
    {"JOB_STATE_UNSPECIFIED", 0},
    {"JOB_STATE_QUEUED", 1},
    {"JOB_STATE_PENDING", 2},
    {"JOB_STATE_RUNNING", 3},
    {"JOB_STATE_SUCCEEDED", 4},
    {"JOB_STATE_FAILED", 5},
    {"JOB_STATE_CANCELLING", 6},
    {"JOB_STATE_CANCELLED", 7},
    {"JOB_STATE_PAUSED", 8},
    {"JOB_STATE_EXPIRED", 9},
    {"JOB_STATE_UPDATING", 10},
    {"JOB_STATE_PARTIALLY_SUCCEEDED", 11},
    {NULL, 0},
};

static const struct wire_field machine_spec_fields[] = {
    {"machineType", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"acceleratorType", WIRE_ENUM, 0, 0, 0, accelerator_types, NULL},
    {"acceleratorCount", WIRE_INT32, 0, 0, 0, NULL, NULL},
    {"tpuTopology", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"reservationAffinity", WIRE_ANY, 0, 0, 0, NULL, NULL},
    {"gpuPartitionSize", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    END_FIELD,
};
static const struct wire_message machine_spec = {"MachineSpec", machine_spec_fields, NULL};

static const struct wire_field env_var_fields[] = {
    {"name", WIRE_STRING, WIRE_REQUIRED, 0, SHORT_BYTES, NULL, NULL},
    {"value", WIRE_STRING, 0, 0, VALUE_BYTES, NULL, NULL},
    END_FIELD,
};
static const struct wire_message env_var = {"EnvVar", env_var_fields, NULL};

static const struct wire_field container_spec_fields[] = {
    {"imageUri", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    {"command", STRINGS, 0, 1000, NULL, NULL},
    {"args", STRINGS, 0, 10000, NULL, NULL},
    {"env", WIRE_MESSAGE, WIRE_REPEATED, 0, 100, NULL, &env_var},
    END_FIELD,
};
static const struct wire_message container_spec = {"ContainerSpec", container_spec_fields, NULL};

static const struct wire_field python_package_spec_fields[] = {
    {"executorImageUri", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    {"packageUris", WIRE_STRING, WIRE_REPEATED | WIRE_REQUIRED, 0, 100, NULL, NULL},
    {"pythonModule", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    {"args", STRINGS, 0, 10000, NULL, NULL},
    {"env", WIRE_MESSAGE, WIRE_REPEATED, 0, 100, NULL, &env_var},
    END_FIELD,
};
static const struct wire_message python_package_spec = {"PythonPackageSpec",
                                                        python_package_spec_fields, NULL};

static const struct wire_field disk_spec_fields[] = {
    {"bootDiskType", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"bootDiskSizeGb", WIRE_INT32, 0, 0, 0, NULL, NULL},
    END_FIELD,
};
static const struct wire_message disk_spec = {"DiskSpec", disk_spec_fields, NULL};

static const struct wire_field nfs_mount_fields[] = {
    {"server", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    {"path", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    {"mountPoint", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    END_FIELD,
};
static const struct wire_message nfs_mount = {"NfsMount", nfs_mount_fields, NULL};

static const struct wire_field lustre_mount_fields[] = {
    {"instanceIp", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    {"volumeHandle", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    {"filesystem", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    {"mountPoint", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    END_FIELD,
};
static const struct wire_message lustre_mount = {"LustreMount", lustre_mount_fields, NULL};

static const char *const worker_pool_task[] = {"containerSpec", "pythonPackageSpec", NULL};
static const struct wire_field worker_pool_spec_fields[] = {
    {"machineSpec", WIRE_MESSAGE, 0, 0, 0, NULL, &machine_spec},
    {"replicaCount", WIRE_INT64, 0, 0, 0, NULL, NULL},
    {"nfsMounts", WIRE_MESSAGE, WIRE_REPEATED, 0, 100, NULL, &nfs_mount},
    {"lustreMounts", WIRE_MESSAGE, WIRE_REPEATED, 0, 100, NULL, &lustre_mount},
    {"diskSpec", WIRE_MESSAGE, 0, 0, 0, NULL, &disk_spec},
    {"containerSpec", WIRE_MESSAGE, 0, 0, 0, NULL, &container_spec},
    {"pythonPackageSpec", WIRE_MESSAGE, 0, 0, 0, NULL, &python_package_spec},
    END_FIELD,
};
static const struct wire_message worker_pool_spec = {"WorkerPoolSpec", worker_pool_spec_fields,
                                                     worker_pool_task};

static const struct wire_field scheduling_fields[] = {
    {"timeout", WIRE_DURATION, 0, 0, 0, NULL, NULL},
    {"restartJobOnWorkerRestart", WIRE_BOOL, 0, 0, 0, NULL, NULL},
    {"strategy", WIRE_ENUM, 0, 0, 0, strategies, NULL},
    {"disableRetries", WIRE_BOOL, 0, 0, 0, NULL, NULL},
    {"maxWaitDuration", WIRE_DURATION, 0, 0, 0, NULL, NULL},
    END_FIELD,
};
static const struct wire_message scheduling = {"Scheduling", scheduling_fields, NULL};

static const struct wire_field gcs_destination_fields[] = {
    {"outputUriPrefix", WIRE_STRING, WIRE_REQUIRED, 0, 4000, NULL, NULL},
    END_FIELD,
};
static const struct wire_message gcs_destination = {"GcsDestination", gcs_destination_fields, NULL};

static const struct wire_field encryption_spec_fields[] = {
    {"kmsKeyName", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    END_FIELD,
};
static const struct wire_message encryption_spec = {"EncryptionSpec", encryption_spec_fields, NULL};

static const struct wire_field custom_job_spec_fields[] = {
    {"persistentResourceId", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"workerPoolSpecs", WIRE_MESSAGE, WIRE_REPEATED | WIRE_REQUIRED, 0, 4, NULL, &worker_pool_spec},
    {"scheduling", WIRE_MESSAGE, 0, 0, 0, NULL, &scheduling},
    {"serviceAccount", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"network", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"reservedIpRanges", STRINGS, 0, 100, NULL, NULL},
    {"pscInterfaceConfig", WIRE_ANY, 0, 0, 0, NULL, NULL},
    {"baseOutputDirectory", WIRE_MESSAGE, 0, 0, 0, NULL, &gcs_destination},
    {"protectedArtifactLocationId", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"tensorboard", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"enableWebAccess", WIRE_BOOL, 0, 0, 0, NULL, NULL},
    {"enableDashboardAccess", WIRE_BOOL, 0, 0, 0, NULL, NULL},
    {"experiment", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"experimentRun", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"models", STRINGS, 0, 100, NULL, NULL},
    END_FIELD,
};
static const struct wire_message custom_job_spec = {"CustomJobSpec", custom_job_spec_fields, NULL};

static const struct wire_field custom_job_fields[] = {
    {"name", WIRE_STRING, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"displayName", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    {"jobSpec", WIRE_MESSAGE, WIRE_REQUIRED, 0, 0, NULL, &custom_job_spec},
    {"state", WIRE_ENUM, WIRE_OUTPUT, 0, 0, job_states, NULL},
    {"createTime", WIRE_TIMESTAMP, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"startTime", WIRE_TIMESTAMP, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"endTime", WIRE_TIMESTAMP, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"updateTime", WIRE_TIMESTAMP, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"error", WIRE_ANY, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"labels", WIRE_STRING_MAP, 0, 0, 64, NULL, NULL},
    {"encryptionSpec", WIRE_MESSAGE, 0, 0, 0, NULL, &encryption_spec},
    {"webAccessUris", WIRE_STRING_MAP, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"satisfiesPzs", WIRE_BOOL, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"satisfiesPzi", WIRE_BOOL, WIRE_OUTPUT, 0, 0, NULL, NULL},
    END_FIELD,
};
const struct wire_message vertex_custom_job = {"CustomJob", custom_job_fields, NULL};

/* ---- what we do with them ---- */

#define SPEC "jobSpec."
#define POOL "jobSpec.workerPoolSpecs[]."
#define HONOURED(p)                                                                                \
    {                                                                                              \
        p, VERTEX_HONOURED, NULL                                                                   \
    }
#define RECORDED(p)                                                                                \
    {                                                                                              \
        p, VERTEX_RECORDED, NULL                                                                   \
    }
#define OUTPUT(p)                                                                                  \
    {                                                                                              \
        p, VERTEX_OUTPUT, NULL                                                                     \
    }
#define REFUSED(p, w)                                                                              \
    {                                                                                              \
        p, VERTEX_REFUSED, w                                                                       \
    }

const struct vertex_field vertex_fields[] = {
    OUTPUT("name"),
    HONOURED("displayName"),
    OUTPUT("state"),
    OUTPUT("createTime"),
    OUTPUT("startTime"),
    OUTPUT("endTime"),
    OUTPUT("updateTime"),
    OUTPUT("error"),
    HONOURED("labels"),
    RECORDED("encryptionSpec.kmsKeyName"),
    OUTPUT("webAccessUris"),
    OUTPUT("satisfiesPzs"),
    OUTPUT("satisfiesPzi"),
    RECORDED(SPEC "persistentResourceId"),
    HONOURED(SPEC "scheduling.timeout"),
    HONOURED(SPEC "scheduling.restartJobOnWorkerRestart"),
    RECORDED(SPEC "scheduling.strategy"),
    HONOURED(SPEC "scheduling.disableRetries"),
    HONOURED(SPEC "scheduling.maxWaitDuration"),
    RECORDED(SPEC "serviceAccount"),
    RECORDED(SPEC "network"),
    RECORDED(SPEC "reservedIpRanges"),
    RECORDED(SPEC "pscInterfaceConfig"),
    HONOURED(SPEC "baseOutputDirectory.outputUriPrefix"),
    RECORDED(SPEC "protectedArtifactLocationId"),
    RECORDED(SPEC "tensorboard"),
    RECORDED(SPEC "enableWebAccess"),
    RECORDED(SPEC "enableDashboardAccess"),
    RECORDED(SPEC "experiment"),
    RECORDED(SPEC "experimentRun"),
    RECORDED(SPEC "models"),
    HONOURED(POOL "machineSpec.machineType"),
    HONOURED(POOL "machineSpec.acceleratorType"),
    HONOURED(POOL "machineSpec.acceleratorCount"),
    RECORDED(POOL "machineSpec.tpuTopology"),
    RECORDED(POOL "machineSpec.reservationAffinity"),
    RECORDED(POOL "machineSpec.gpuPartitionSize"),
    HONOURED(POOL "replicaCount"),
    RECORDED(POOL "nfsMounts"),
    RECORDED(POOL "lustreMounts"),
    RECORDED(POOL "diskSpec.bootDiskType"),
    RECORDED(POOL "diskSpec.bootDiskSizeGb"),
    HONOURED(POOL "containerSpec.imageUri"),
    HONOURED(POOL "containerSpec.command"),
    HONOURED(POOL "containerSpec.args"),
    HONOURED(POOL "containerSpec.env"),
    HONOURED(POOL "pythonPackageSpec.executorImageUri"),
    HONOURED(POOL "pythonPackageSpec.packageUris"),
    HONOURED(POOL "pythonPackageSpec.pythonModule"),
    HONOURED(POOL "pythonPackageSpec.args"),
    HONOURED(POOL "pythonPackageSpec.env"),
    {NULL, VERTEX_HONOURED, NULL},
};

const char *vertex_treatment_name(enum vertex_treatment t)
{
    static const char *const names[] = {"honoured", "recorded", "refused", "output"};
    return names[t];
}

typedef void (*field_visit)(void *arg, const char *where, const json_t *value);

/* Visit each value that `path` ("a.b[].c") leads to below `value`; `where` holds the way so far and
 * is put back as it was. */
static void field_walk(const json_t *value, const char *path, struct ty_buf *where,
                       field_visit visit, void *arg)
{
    if (*path == '\0') {
        visit(arg, where->ptr, value);
        return;
    }
    size_t mark = where->len, n = strcspn(path, ".[");
    if (path[0] == '[') {
        for (size_t i = 0; i < json_array_size(value); i++) {
            ty_buf_addf(where, "[%zu]", i);
            field_walk(json_array_get(value, i), path + 2, where, visit, arg);
            where->len = mark;
        }
    } else if (path[0] == '.') {
        ty_buf_addc(where, '.');
        field_walk(value, path + 1, where, visit, arg);
    } else {
        ty_buf_add(where, path, n);
        const json_t *member = json_object_get(value, where->ptr + mark);
        if (member != NULL)
            field_walk(member, path + n, where, visit, arg);
    }
    where->len = mark;
}

/* Visit what the message has in the row's field. */
static void field_visit_all(const struct vertex_field *field, const json_t *message,
                            field_visit visit, void *arg)
{
    struct ty_buf where;
    ty_buf_init(&where, 4096);
    field_walk(message, field->path, &where, visit, arg);
    ty_buf_clear(&where);
}

struct refusal {
    struct wire_violations *v;
    const char *why;
};

static void refuse(void *arg, const char *where, const json_t *value)
{
    (void)value;
    struct refusal *r = arg;
    wire_violation_add(r->v, where, "%s", r->why);
}

void vertex_fields_refuse(const struct vertex_field *table, const json_t *message,
                          struct wire_violations *v)
{
    for (const struct vertex_field *f = table; f->path != NULL; f++) {
        struct refusal r = {v, f->why};
        if (f->treatment == VERTEX_REFUSED)
            field_visit_all(f, message, refuse, &r);
    }
}

/* Clients write defaults out ("enableWebAccess": false); those ask for nothing. */
static void note_if_asked(void *arg, const char *where, const json_t *value)
{
    (void)where;
    bool *asked = arg;
    switch (json_typeof(value)) {
    case JSON_STRING: {
        ty_str s = {json_string_value(value), json_string_length(value)};
        *asked |= s.len > 0 && !ty_str_ends(s, TY_STR("_UNSPECIFIED"));
        break;
    }
    case JSON_INTEGER:
        *asked |= json_integer_value(value) != 0;
        break;
    case JSON_OBJECT:
        *asked |= json_object_size(value) > 0;
        break;
    case JSON_ARRAY:
        *asked |= json_array_size(value) > 0;
        break;
    case JSON_FALSE:
    case JSON_NULL:
        break;
    default:
        *asked = true;
    }
}

void vertex_fields_warn(const struct vertex_field *table, const json_t *message, struct ty_buf *b)
{
    const char *before = "recorded, but without effect on this machine (docs/compat.md): ";
    for (const struct vertex_field *f = table; f->path != NULL; f++) {
        bool asked = false;
        if (f->treatment == VERTEX_RECORDED)
            field_visit_all(f, message, note_if_asked, &asked);
        if (asked) {
            ty_buf_addf(b, "%s%s", before, f->path);
            before = ", ";
        }
    }
}

void vertex_job_warnings(const json_t *custom_job, struct ty_buf *b)
{
    vertex_fields_warn(vertex_fields, custom_job, b);
}

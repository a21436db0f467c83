/* messages.c -- the Job message of `ml` v1: what a request may contain, and what we do with each
 * field.
 *
 * As in vertex/messages.c, two tables: the wire_message tables are Google's message, ml_fields our
 * treatment of its paths. test_ml.c holds them and docs/compat.md together. */
#include "ml/ml_int.h"

#define STRINGS WIRE_STRING, WIRE_REPEATED
#define END_FIELD                                                                                  \
    {                                                                                              \
        NULL, WIRE_STRING, 0, 0, 0, NULL, NULL                                                     \
    }

enum { SHORT_BYTES = 256, NAME_BYTES = 1024, URI_BYTES = 4000 };

/* Enums by name only: this API is REST alone, and the numbers are not public. */
#define NAME(n, name)                                                                              \
    {                                                                                              \
        name, INT32_MIN + (n)                                                                      \
    }
static const struct wire_enum_value scale_tiers[] = {
    NAME(0, "BASIC"),
    NAME(1, "STANDARD_1"),
    NAME(2, "PREMIUM_1"),
    NAME(3, "BASIC_GPU"),
    NAME(4, "BASIC_TPU"),
    NAME(5, "CUSTOM"),
    {NULL, 0},
};
static const struct wire_enum_value accelerator_types[] = {
    NAME(0, "ACCELERATOR_TYPE_UNSPECIFIED"),
    NAME(1, "NVIDIA_TESLA_K80"),
    NAME(2, "NVIDIA_TESLA_P100"),
    NAME(3, "NVIDIA_TESLA_V100"),
    NAME(4, "NVIDIA_TESLA_P4"),
    NAME(5, "NVIDIA_TESLA_T4"),
    NAME(6, "NVIDIA_TESLA_A100"),
    NAME(7, "TPU_V2"),
    NAME(8, "TPU_V3"),
    NAME(9, "TPU_V4_POD"),
    {NULL, 0},
};
static const struct wire_enum_value strategies[] = {
    NAME(0, "STRATEGY_UNSPECIFIED"),
    NAME(1, "ON_DEMAND"),
    NAME(2, "LOW_COST"),
    {NULL, 0},
};
static const struct wire_enum_value states[] = {
    NAME(0, "STATE_UNSPECIFIED"), NAME(1, "QUEUED"),    NAME(2, "PREPARING"),
    NAME(3, "RUNNING"),           NAME(4, "SUCCEEDED"), NAME(5, "FAILED"),
    NAME(6, "CANCELLING"),        NAME(7, "CANCELLED"), {NULL, 0},
};

static const struct wire_field accelerator_config_fields[] = {
    {"count", WIRE_INT64, 0, 0, 64, NULL, NULL},
    {"type", WIRE_ENUM, 0, 0, 0, accelerator_types, NULL},
    END_FIELD,
};
static const struct wire_message accelerator_config = {"AcceleratorConfig",
                                                       accelerator_config_fields, NULL};

static const struct wire_field disk_config_fields[] = {
    {"bootDiskType", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"bootDiskSizeGb", WIRE_INT32, 0, 0, 0, NULL, NULL},
    END_FIELD,
};
static const struct wire_message disk_config = {"DiskConfig", disk_config_fields, NULL};

static const struct wire_field replica_config_fields[] = {
    {"acceleratorConfig", WIRE_MESSAGE, 0, 0, 0, NULL, &accelerator_config},
    {"imageUri", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"containerCommand", STRINGS, 0, 1000, NULL, NULL},
    {"containerArgs", STRINGS, 0, 10000, NULL, NULL},
    {"diskConfig", WIRE_MESSAGE, 0, 0, 0, NULL, &disk_config},
    {"tpuTfVersion", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    END_FIELD,
};
static const struct wire_message replica_config = {"ReplicaConfig", replica_config_fields, NULL};

static const struct wire_field scheduling_fields[] = {
    {"maxRunningTime", WIRE_DURATION, 0, 0, 0, NULL, NULL},
    {"maxWaitTime", WIRE_DURATION, 0, 0, 0, NULL, NULL},
    {"priority", WIRE_INT32, 0, 0, 0, NULL, NULL},
    {"resilientToWorkerRestart", WIRE_BOOL, 0, 0, 0, NULL, NULL},
    {"strategy", WIRE_ENUM, 0, 0, 0, strategies, NULL},
    END_FIELD,
};
static const struct wire_message scheduling = {"Scheduling", scheduling_fields, NULL};

static const struct wire_field encryption_config_fields[] = {
    {"kmsKeyName", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    END_FIELD,
};
static const struct wire_message encryption_config = {"EncryptionConfig", encryption_config_fields,
                                                      NULL};

static const struct wire_field training_input_fields[] = {
    {"scaleTier", WIRE_ENUM, 0, 0, 0, scale_tiers, NULL},
    {"masterType", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"masterConfig", WIRE_MESSAGE, 0, 0, 0, NULL, &replica_config},
    {"workerType", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"workerConfig", WIRE_MESSAGE, 0, 0, 0, NULL, &replica_config},
    {"workerCount", WIRE_INT64, 0, 0, 0, NULL, NULL},
    {"parameterServerType", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"parameterServerConfig", WIRE_MESSAGE, 0, 0, 0, NULL, &replica_config},
    {"parameterServerCount", WIRE_INT64, 0, 0, 0, NULL, NULL},
    {"evaluatorType", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"evaluatorConfig", WIRE_MESSAGE, 0, 0, 0, NULL, &replica_config},
    {"evaluatorCount", WIRE_INT64, 0, 0, 0, NULL, NULL},
    {"packageUris", STRINGS, 0, 100, NULL, NULL},
    {"pythonModule", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"args", STRINGS, 0, 10000, NULL, NULL},
    {"hyperparameters", WIRE_ANY, 0, 0, 0, NULL, NULL},
    {"region", WIRE_STRING, WIRE_REQUIRED, 0, SHORT_BYTES, NULL, NULL},
    {"jobDir", WIRE_STRING, 0, 0, URI_BYTES, NULL, NULL},
    {"runtimeVersion", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"pythonVersion", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"scheduling", WIRE_MESSAGE, 0, 0, 0, NULL, &scheduling},
    {"network", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"serviceAccount", WIRE_STRING, 0, 0, NAME_BYTES, NULL, NULL},
    {"encryptionConfig", WIRE_MESSAGE, 0, 0, 0, NULL, &encryption_config},
    {"useChiefInTfConfig", WIRE_BOOL, 0, 0, 0, NULL, NULL},
    {"enableWebAccess", WIRE_BOOL, 0, 0, 0, NULL, NULL},
    END_FIELD,
};
static const struct wire_message training_input = {"TrainingInput", training_input_fields, NULL};

static const struct wire_field job_fields[] = {
    {"jobId", WIRE_STRING, WIRE_REQUIRED, 0, NAME_BYTES, NULL, NULL},
    {"trainingInput", WIRE_MESSAGE, 0, 0, 0, NULL, &training_input},
    {"predictionInput", WIRE_ANY, 0, 0, 0, NULL, NULL},
    {"createTime", WIRE_TIMESTAMP, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"startTime", WIRE_TIMESTAMP, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"endTime", WIRE_TIMESTAMP, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"state", WIRE_ENUM, WIRE_OUTPUT, 0, 0, states, NULL},
    {"errorMessage", WIRE_STRING, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"trainingOutput", WIRE_ANY, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"predictionOutput", WIRE_ANY, WIRE_OUTPUT, 0, 0, NULL, NULL},
    {"labels", WIRE_STRING_MAP, 0, 0, 64, NULL, NULL},
    {"etag", WIRE_STRING, 0, 0, SHORT_BYTES, NULL, NULL},
    {"jobPosition", WIRE_INT64, WIRE_OUTPUT, 0, 0, NULL, NULL},
    END_FIELD,
};
const struct wire_message ml_job = {"Job", job_fields, NULL};

/* ---- what we do with them ---- */

#define IN "trainingInput."
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
#define REPLICAS(role)                                                                             \
    HONOURED(IN role "Type"), HONOURED(IN role "Config.acceleratorConfig"),                        \
        HONOURED(IN role "Config.imageUri"), HONOURED(IN role "Config.containerCommand"),          \
        HONOURED(IN role "Config.containerArgs"), RECORDED(IN role "Config.diskConfig"),           \
        RECORDED(IN role "Config.tpuTfVersion")

const struct vertex_field ml_fields[] = {
    HONOURED("jobId"),
    REFUSED("predictionInput",
            "batch prediction is not done here; jobs of this API are training jobs"),
    OUTPUT("createTime"),
    OUTPUT("startTime"),
    OUTPUT("endTime"),
    OUTPUT("state"),
    OUTPUT("errorMessage"),
    OUTPUT("trainingOutput"),
    OUTPUT("predictionOutput"),
    HONOURED("labels"),
    HONOURED("etag"),
    OUTPUT("jobPosition"),
    HONOURED(IN "scaleTier"),
    REPLICAS("master"),
    REPLICAS("worker"),
    HONOURED(IN "workerCount"),
    REPLICAS("parameterServer"),
    HONOURED(IN "parameterServerCount"),
    REPLICAS("evaluator"),
    HONOURED(IN "evaluatorCount"),
    HONOURED(IN "packageUris"),
    HONOURED(IN "pythonModule"),
    HONOURED(IN "args"),
    REFUSED(IN "hyperparameters",
            "tuning is not done by this API here; submit one job for each set of values"),
    HONOURED(IN "region"),
    HONOURED(IN "jobDir"),
    HONOURED(IN "runtimeVersion"),
    HONOURED(IN "pythonVersion"),
    HONOURED(IN "scheduling.maxRunningTime"),
    HONOURED(IN "scheduling.maxWaitTime"),
    RECORDED(IN "scheduling.priority"),
    RECORDED(IN "scheduling.resilientToWorkerRestart"),
    RECORDED(IN "scheduling.strategy"),
    RECORDED(IN "network"),
    RECORDED(IN "serviceAccount"),
    RECORDED(IN "encryptionConfig.kmsKeyName"),
    HONOURED(IN "useChiefInTfConfig"),
    RECORDED(IN "enableWebAccess"),
    {NULL, VERTEX_HONOURED, NULL},
};

void ml_job_warnings(const json_t *input, struct ty_buf *b)
{
    json_t *job = json_pack("{s:O}", "trainingInput", input);
    ty_assert(job != NULL);
    vertex_fields_warn(ml_fields, job, b);
    json_decref(job);
}

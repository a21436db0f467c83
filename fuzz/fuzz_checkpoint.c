/* fuzz_checkpoint.c -- any bytes as the tensors of a checkpoint, with right checksums: the names
 * are those that are looked for, what they hold and how long they are is the fuzzer's.
 *
 * What must hold: a checkpoint that does not fit is refused; one that is taken has a state that a
 * run can go on from. */
#define TY_SEAM
#include "train/train_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char MODEL[] = "{name: f, input: {columns: [{name: y}, {name: x}]},"
                            " network: {input: [x], layers: [{dense: 1, name: out}]},"
                            " head: {label: y}, training: {metrics: [mse]}}";
static const char *const NAMES[] = {"trainyard/run",
                                    "trainyard/state",
                                    "trainyard/metrics/loss",
                                    "trainyard/metrics/mse",
                                    "out/kernel",
                                    "out/bias",
                                    "optimizer/out/kernel/m",
                                    "optimizer/out/kernel/v",
                                    "optimizer/out/bias/m",
                                    "optimizer/out/bias/v"};

/* Each tensor: a byte for its type, one for its length, then its bytes. */
static void files_write(struct ty_arena *a, const char *dir, const uint8_t *data, size_t size)
{
    struct bundle_writer w;
    struct ty_buf values, index;
    bundle_writer_init(&w, a);
    ty_buf_init(&values, 1 << 20);
    ty_buf_init(&index, 1 << 20);
    for (size_t i = 0; i < TY_COUNT(NAMES) && size >= 2; i++) {
        bool doubles = data[0] & 1, text = data[0] & 2;
        size_t unit = doubles ? 8 : 4, n = data[1] * unit;
        n = n > size - 2 ? (size - 2) / unit * unit : n;
        ty_str bytes = {(const char *)data + 2, n};
        if (text &&
            bundle_add_strings(&w, ty_str_of(NAMES[i]), &SHAPE_SCALAR, &bytes, &values) != TY_OK)
            break;
        if (!text) {
            if (bundle_add(&w, ty_str_of(NAMES[i]), doubles ? DTYPE_DOUBLE : DTYPE_FLOAT,
                           &SHAPE((int64_t)(n / unit)), bytes) != TY_OK)
                break;
            ty_buf_adds(&values, bytes);
        }
        data += 2 + n;
        size -= 2 + n;
    }
    if (bundle_index(&w, &index) == TY_OK &&
        ty_file_replace(AT_FDCWD, ty_format(a, "%s/ckpt-1.data-00000-of-00001", dir),
                        ty_buf_str(&values), 0600) == TY_OK)
        (void)!ty_file_replace(AT_FDCWD, ty_format(a, "%s/ckpt-1.index", dir), ty_buf_str(&index),
                               0600);
    ty_buf_clear(&values);
    ty_buf_clear(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char dir[] = "/dev/shm/fuzz_checkpoint.XXXXXX";
    static bool made;
    struct ty_arena a = {0};
    struct nn_model *m;
    struct nn_net *n;
    struct train_optimizer *o;
    struct metrics metrics;
    struct train_state state;
    if (!made) {
        ty_assert(mkdtemp(dir) != NULL);
        ty_assert(ty_file_replace(AT_FDCWD, ty_format(&a, "%s/checkpoint", dir),
                                  TY_STR("all_model_checkpoint_paths: \"ckpt-1\"\n"),
                                  0600) == TY_OK);
        ty_log_level_set(TY_LOG_ERROR);
        made = true;
    }
    struct tensor_team *team = tensor_team_new(1);
    ty_assert(nn_model_parse(&a, "f", ty_str_of(MODEL), NULL, 0, &m) == TY_OK);
    ty_assert(nn_net_new(m, 4, 1, 1, team, NULL, &n) == TY_OK);
    o = train_optimizer_new(n, 10);
    metrics_init(&a, &metrics, m);
    files_write(&a, dir, data, size);
    struct train_checkpoints c = {.dir = dir, .keep = 1, .run = {{1, 2, 3, 4}}};
    if (train_checkpoint_load(&c, n, o, &metrics, &state) == TY_OK)
        ty_assert(state.step >= 0 && state.epoch >= 0 && state.rate_scale <= 1 &&
                  train_optimizer_steps(o) == state.step);
    train_optimizer_free(o);
    nn_net_free(n);
    tensor_team_free(team);
    ty_arena_clear(&a);
    return 0;
}

/* fuzz_ps.c -- any bytes as a frame to a parameter server, and as a log of pushes.
 *
 * The checksum is put right first: otherwise nothing would get behind it. What must hold: whatever
 * is taken stays within the arrays; a log is read up to the first frame that is none. */
#define TY_SEAM
#include "ps/ps_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VARIABLES = 3 };
static float arrays[VARIABLES][2][24];

static void begin(void *ctx, float scale)
{
    (void)ctx;
    (void)scale;
}

static void plain(void *ctx, const struct ps_segment *s, const float *gradient)
{
    (void)ctx;
    memcpy(arrays[s->variable][0] + s->from, gradient, s->count * sizeof(float));
}

static void rows(void *ctx, size_t variable, const uint32_t *ids, size_t count,
                 const float *gradient)
{
    (void)ctx;
    for (size_t i = 0; i < count; i++)
        memcpy(arrays[variable][0] + ids[i] * 4, gradient + i * 4, 4 * sizeof(float));
}

static void frame_take(struct ps_state *s, ty_str bytes)
{
    struct ps_frame f;
    struct ps_piece piece;
    struct ps_rows r;
    if (ps_frame_read(bytes, &f, NULL) != TY_OK)
        return;
    struct ps_cursor c = {f.body};
    while (ps_rows_next(s->layout, s->server, false, &c, &r) == TY_OK)
        for (size_t i = 0; i < r.count; i++)
            ty_assert(r.ids[i] < 6);
    if (ps_piece_read(s->layout, s->server, f.body, &piece) == TY_OK) {
        float room[24];
        ty_assert(ps_piece_floats(s->layout, &piece) <= 24);
        ps_piece_copy(s->layout, s->server, &piece, room, NULL);
    }
    bool is_new;
    uint64_t before = s->version;
    if (f.kind == PS_PUSH && ps_state_push(s, &f, bytes, &is_new) == TY_OK)
        ty_assert(s->version == before + is_new);
}

/* The bytes as a frame whose length and checksum are right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ps_variable variables[VARIABLES] = {
        {{arrays[0][0], arrays[0][1], NULL}, 20, 0},
        {{arrays[1][0], arrays[1][1], NULL}, 24, 4},
        {{arrays[2][0], NULL, NULL}, 7, 0}};
    static const char *const names[] = {"chief", "worker 0"};
    const struct ps_store store = {.begin = begin, .plain = plain, .rows = rows};
    struct ps_member list[2] = {{0}};
    struct ps_members members = {list, names, 2, -1, 100};
    struct ps_layout layout;
    if (size < PS_HEADER_BYTES)
        return 0;
    ps_layout_init(&layout, variables, VARIABLES, 1 + data[0] % 3);
    struct ps_state s = {.layout = &layout,
                         .store = &store,
                         .members = &members,
                         .server = data[1] % layout.servers,
                         .dir = "/dev/shm",
                         .log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC),
                         .trace_fd = -1};
    struct ty_buf b;
    struct ps_frame f = {.kind = (enum ps_kind)(data[2] % PS_KIND_COUNT),
                         .worker = data[3] % 3,
                         .incarnation = data[4],
                         .sequence = data[5],
                         .c = data[6]};
    ty_buf_init(&b, 1 << 20);
    ps_frame_begin(&b);
    ty_buf_add(&b, data + 7, size - 7);
    ps_frame_end(&b, &f);
    frame_take(&s, ty_buf_str(&b));
    frame_take(&s, (ty_str){(const char *)data, size});
    ty_buf_clear(&b);
    close(s.log_fd);
    return 0;
}

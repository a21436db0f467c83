/* test_ps.c -- layouts, frames, the gate, and a state that survives its process. */
#include "ps/test_ps.h"

/* ---- layout ---- */

static void layout_has_each_number_once(void **state)
{
    (void)state;
    for (size_t servers = 1; servers <= 20; servers++) {
        struct toy t;
        int plain[TOY_VARIABLES][32] = {{0}};
        size_t least = SIZE_MAX, most = 0, rows[TOY_VARIABLES] = {0};
        toy_init(&t, servers);
        assert_int_equal(t.layout.plain, 15);
        for (size_t s = 0; s < servers; s++) {
            struct ps_segment g = {0};
            size_t count = 0;
            while (ps_layout_next(&t.layout, s, &g)) {
                assert_int_equal(TOY_WIDTHS[g.variable], 0);
                for (size_t k = 0; k < g.count; k++)
                    plain[g.variable][g.from + k]++;
                count += g.count;
            }
            assert_int_equal(count, ps_layout_plain(&t.layout, s));
            least = count < least ? count : least;
            most = count > most ? count : most;
            rows[1] += ps_layout_rows(&t.layout, s, 1);
            rows[3] += ps_layout_rows(&t.layout, s, 3);
        }
        for (size_t i = 0; i < TOY_VARIABLES; i += 2)
            for (size_t k = 0; k < TOY_COUNTS[i]; k++)
                assert_int_equal(plain[i][k], 1);
        assert_true(most - least <= 1);
        assert_true(rows[1] == 7 && rows[3] == 11);
    }
}

static void pieces_cover_all_arrays(void **state)
{
    (void)state;
    struct toy t, copy;
    for (size_t servers = 1; servers <= 5; servers++) {
        toy_init(&t, servers);
        toy_init(&copy, servers);
        memset(copy.values, 0, sizeof copy.values);
        memset(t.counts, 1, sizeof t.counts);
        for (size_t s = 0; s < servers; s++) {
            struct ps_piece p = {0}, again;
            struct ty_buf b;
            ty_buf_init(&b, 100);
            while (ps_piece_next(&t.layout, s, &p)) {
                float room[64];
                b.len = 0;
                ps_piece_put(&b, &p);
                assert_ok(ps_piece_read(&t.layout, s, ty_buf_str(&b), &again));
                assert_memory_equal(&p, &again, sizeof p);
                ps_piece_copy(&t.layout, s, &p, room, NULL);
                ps_piece_copy(&copy.layout, s, &p, NULL, room);
            }
            ty_buf_clear(&b);
        }
        for (size_t i = 0; i < TOY_VARIABLES; i++) {
            assert_memory_equal(t.values[i], copy.values[i], TOY_COUNTS[i] * sizeof(float));
            assert_memory_equal(t.counts[i], copy.counts[i], TOY_COUNTS[i] * sizeof(float));
        }
    }
}

static void piece_of_another_is_refused(void **state)
{
    (void)state;
    static const struct ps_piece wrong[] = {
        {9, 0, 0, 1},          {0, 2, 0, 1}, {0, 7, 0, 1},  {0, 0, 0, 0},
        {0, 0, 0, 9},          {0, 0, 8, 1}, {1, 0, 0, 5},  {1, 0, UINT64_MAX, 1},
        {1, 0, 0, UINT64_MAX}, {2, 0, 0, 1}, {0, 0, 30, 1},
    };
    struct toy t;
    struct ty_buf b;
    toy_init(&t, 2);
    ty_buf_init(&b, 100);
    for (size_t i = 0; i < TY_COUNT(wrong); i++) {
        struct ps_piece p;
        b.len = 0;
        ps_piece_put(&b, &wrong[i]);
        assert_err(TY_INVALID_ARGUMENT, ps_piece_read(&t.layout, 0, ty_buf_str(&b), &p));
    }
    ty_buf_clear(&b);
}

/* ---- frames ---- */

static void push_make(struct ty_buf *b, const struct ps_layout *l, size_t server,
                      const struct ps_frame *f, const struct ps_part *parts, float scale)
{
    struct ps_segment g = {0};
    ps_frame_begin(b);
    ty_buf_add(b, &scale, sizeof scale);
    while (ps_layout_next(l, server, &g))
        ty_buf_add(b, parts[g.variable].gradient + g.from, g.count * sizeof(float));
    for (size_t i = 0; i < TOY_VARIABLES; i++)
        if (TOY_WIDTHS[i])
            ps_rows_put(b, l, server, i, &parts[i]);
    ps_frame_end(b, f);
}

static const struct ps_frame PUSH = {.kind = PS_PUSH,
                                     .worker = 1,
                                     .flags = 5,
                                     .cluster = 77,
                                     .incarnation = 1000,
                                     .sequence = 1,
                                     .a = 3,
                                     .b = 4,
                                     .c = 5};

static void frame_comes_back(void **state)
{
    (void)state;
    struct ty_buf b;
    struct ps_frame f;
    ty_buf_init(&b, 1000);
    ps_frame_begin(&b);
    ty_buf_addz(&b, "words");
    ps_frame_end(&b, &PUSH);
    assert_int_equal(b.len % 4, 0);
    assert_ok(ps_frame_read(ty_buf_str(&b), &f, NULL));
    assert_true(f.kind == PS_PUSH && f.worker == 1 && f.flags == 5 && f.cluster == 77 &&
                f.incarnation == 1000 && f.sequence == 1 && f.a == 3 && f.b == 4 && f.c == 5);
    assert_string_equal(f.body.ptr, "words");
    ty_buf_clear(&b);
}

static void frame_with_any_bit_wrong_is_refused(void **state)
{
    (void)state;
    struct ty_buf b;
    struct ps_frame f;
    size_t bytes;
    ty_buf_init(&b, 1000);
    ps_frame_begin(&b);
    ty_buf_addz(&b, "12345678");
    ps_frame_end(&b, &PUSH);
    for (size_t i = 0; i < 8 * b.len; i++) {
        b.ptr[i / 8] = (char)(b.ptr[i / 8] ^ (1 << i % 8));
        assert_err(TY_DATA_LOSS, ps_frame_read(ty_buf_str(&b), &f, NULL));
        b.ptr[i / 8] = (char)(b.ptr[i / 8] ^ (1 << i % 8));
    }
    for (size_t n = 0; n < b.len; n++) {
        assert_err(TY_DATA_LOSS, ps_frame_read((ty_str){b.ptr, n}, &f, NULL));
        assert_err(TY_DATA_LOSS, ps_frame_read((ty_str){b.ptr, n}, &f, &bytes));
    }
    ty_buf_addz(&b, "more");
    assert_err(TY_DATA_LOSS, ps_frame_read(ty_buf_str(&b), &f, NULL));
    assert_ok(ps_frame_read(ty_buf_str(&b), &f, &bytes));
    assert_int_equal(bytes, b.len - 4);
    ty_buf_clear(&b);
}

static void rows_that_are_not_here_are_refused(void **state)
{
    (void)state;
    static const uint32_t wrong[][3] = {
        {1, 1, 1}, /* the other server's */
        {1, 1, 8}, /* no row */
        {0, 1, 0}, /* no table */
        {9, 1, 0}, /* no variable */
        {1, 2, 0}, /* cut short */
        {1, UINT32_MAX, 0},
    };
    struct toy t;
    struct ps_rows rows;
    toy_init(&t, 2);
    for (size_t i = 0; i < TY_COUNT(wrong); i++) {
        struct ps_cursor c = {{(const char *)wrong[i], sizeof wrong[i]}};
        assert_err(TY_INVALID_ARGUMENT, ps_rows_next(&t.layout, 0, false, &c, &rows));
    }
    struct ps_cursor c = {{(const char *)wrong[0], 4}};
    assert_err(TY_INVALID_ARGUMENT, ps_rows_next(&t.layout, 1, false, &c, &rows));
    c.left.len = sizeof wrong[0];
    assert_ok(ps_rows_next(&t.layout, 1, false, &c, &rows));
    assert_true(rows.variable == 1 && rows.count == 1 && rows.ids[0] == 1);
    assert_err(TY_OUT_OF_RANGE, ps_rows_next(&t.layout, 1, false, &c, &rows));
}

/* ---- members ---- */

static void gate_bounds_the_staleness(void **state)
{
    (void)state;
    struct ps_member list[3] = {{.clock = 7, .live = true}, {.clock = 5, .live = true}, {0}};
    struct ps_members m = {list, TOY_NAMES, 3, 1, 100};
    size_t who = 9;
    assert_false(ps_members_gate(&m, 0, 7, 50, &who));
    assert_int_equal(who, 1);
    assert_true(ps_members_gate(&m, 0, 6, 50, &who));
    assert_true(ps_members_gate(&m, 1, 5, 50, &who));
    m.staleness = 2;
    assert_true(ps_members_gate(&m, 0, 7, 50, &who));
    m.staleness = -1;
    assert_true(ps_members_gate(&m, 0, 7000, 50, &who));
}

static void gate_lets_only_the_steps_that_are_left_begin(void **state)
{
    (void)state;
    struct ps_member list[3] = {{.live = true}, {.live = true, .begun = true}, {.begun = true}};
    struct ps_members m = {list, TOY_NAMES, 3, -1, 100};
    size_t who = 9;
    assert_true(ps_members_gate(&m, 0, 0, 98, &who));
    assert_false(ps_members_gate(&m, 0, 0, 99, &who)); /* the one that has begun is the last */
    assert_int_equal(who, 1);
    assert_true(ps_members_gate(&m, 1, 0, 99, &who)); /* asked again by it */
    assert_false(ps_members_gate(&m, 1, 0, 100, &who));
}

static void gate_lets_the_last_steps_begin_one_after_another(void **state)
{
    (void)state;
    struct ps_member list[3] = {{.live = true}, {.live = true, .begun = true}, {.begun = true}};
    struct ps_members m = {list, TOY_NAMES, 3, -1, 12000};
    size_t who = 9;
    assert_true(ps_members_gate(&m, 0, 0, 11899, &who));
    assert_false(ps_members_gate(&m, 0, 0, 11900, &who));
    assert_int_equal(who, 1);
    assert_true(ps_members_gate(&m, 1, 0, 11900, &who)); /* asked again by it */
    list[1].begun = false;
    assert_true(ps_members_gate(&m, 0, 0, 11900, &who));
    m.steps = 600; /* of a short run they are a twentieth of what each makes */
    list[1].begun = true;
    assert_true(ps_members_gate(&m, 0, 0, 589, &who));
    assert_false(ps_members_gate(&m, 0, 0, 590, &who));
}

static void who_is_silent_leaves_and_comes_back_at_the_least(void **state)
{
    (void)state;
    struct ps_member list[3] = {{0}};
    struct ps_members m = {list, TOY_NAMES, 3, 0, 100};
    size_t who;
    ps_members_heard(&m, 0, 1000);
    ps_members_heard(&m, 1, 1000);
    list[0].clock = list[1].clock = 5;
    list[1].begun = true;
    ps_members_heard(&m, 0, 5001);
    assert_int_equal(ps_members_silent(&m, 5000), SIZE_MAX);
    assert_int_equal(ps_members_silent(&m, 5001), 1);
    assert_int_equal(ps_members_silent(&m, 5001), SIZE_MAX);
    assert_false(list[1].live || list[1].begun);
    list[0].clock = 9;
    ps_members_heard(&m, 1, 6000);
    ps_members_heard(&m, 2, 6000);
    assert_true(list[1].live && list[1].clock == 9 && list[2].clock == 9);
    assert_int_equal(ps_members_least(&m, &who), 9);
}

static void silent_watcher_is_told_once(void **state)
{
    (void)state;
    struct ps_watcher w = {.live = true, .heard_ms = 1000};
    assert_false(ps_watcher_silent(&w, 5000, false));
    assert_true(ps_watcher_silent(&w, 5001, false));
    assert_false(ps_watcher_silent(&w, 9000, false));
    w = (struct ps_watcher){.live = true, .heard_ms = 1000};
    assert_false(ps_watcher_silent(&w, 5001, true)); /* it may have gone: all is over */
}

/* ---- the state ---- */

struct place {
    char dir[64];
    struct toy toy;
    struct ps_store store;
    struct ps_member list[TOY_WORKERS];
    struct ps_members members;
    struct ps_state state;
    struct ty_buf frame;
};

static void place_open(struct place *p)
{
    toy_init(&p->toy, 2);
    p->store = toy_store(&p->toy);
    memset(p->list, 0, sizeof p->list);
    p->members = (struct ps_members){p->list, TOY_NAMES, TOY_WORKERS, -1, 0};
    p->state = (struct ps_state){.layout = &p->toy.layout,
                                 .store = &p->store,
                                 .members = &p->members,
                                 .server = 1,
                                 .dir = p->dir,
                                 .lock_fd = -1,
                                 .log_fd = -1,
                                 .trace_fd = -1};
    ty_buf_init(&p->frame, 1 << 16);
    assert_ok(ps_state_open(&p->state));
}

static void place_init(struct place *p)
{
    snprintf(p->dir, sizeof p->dir, "/tmp/test_ps.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    place_open(p);
    assert_ok(ps_state_begin(&p->state, 42, TOY_STEPS));
}

static void place_close(struct place *p)
{
    ps_state_close(&p->state);
    ty_buf_clear(&p->frame);
}

static void place_clear(struct place *p)
{
    place_close(p);
    assert_ok(ty_remove_tree(AT_FDCWD, p->dir));
}

static ty_err push(struct place *p, uint32_t worker, uint64_t incarnation, unsigned number,
                   bool *ret_new)
{
    struct toy_step step;
    struct ps_frame f = PUSH;
    toy_step(&step, number);
    f.worker = worker;
    f.incarnation = incarnation;
    f.sequence = number;
    f.c = number;
    push_make(&p->frame, &p->toy.layout, 1, &f, step.parts, 1);
    struct ps_frame read;
    assert_ok(ps_frame_read(ty_buf_str(&p->frame), &read, NULL));
    return ps_state_push(&p->state, &read, ty_buf_str(&p->frame), ret_new);
}

/* What the server has after steps 1 to `count` of one worker. */
static void toy_expect(struct toy *want, unsigned count)
{
    toy_init(want, 2);
    for (unsigned i = 1; i <= count; i++) {
        struct toy_step s;
        struct ps_segment g = {0};
        toy_step(&s, i);
        want->scale = 1;
        while (ps_layout_next(&want->layout, 1, &g))
            toy_plain(want, &g, s.parts[g.variable].gradient + g.from);
        for (size_t v = 1; v < TOY_VARIABLES; v += 2)
            for (size_t k = 0; k < s.parts[v].count; k++)
                if (s.ids[v][k] % 2 == 1)
                    toy_rows(want, v, &s.ids[v][k], 1, s.gradients[v] + k * TOY_WIDTHS[v]);
    }
}

static void assert_toy(const struct toy *have, unsigned count)
{
    struct toy want;
    toy_expect(&want, count);
    assert_memory_equal(have->values, want.values, sizeof want.values);
    assert_memory_equal(have->counts, want.counts, sizeof want.counts);
}

static void store_replays_what_was_acknowledged(void **state)
{
    (void)state;
    struct place p;
    bool is_new;
    place_init(&p);
    for (unsigned i = 1; i <= 20; i++) {
        assert_ok(push(&p, 1, 1000, i, &is_new));
        assert_true(is_new);
        if (i == 7 || i == 8 || i == 15)
            assert_ok(ps_state_snapshot(&p.state));
        place_close(&p);
        place_open(&p);
        assert_toy(&p.toy, i);
        assert_true(p.state.begun && p.state.version == i && p.state.run == 42);
        assert_int_equal(p.toy.steps, TOY_STEPS);
        assert_true(p.list[1].pushes == i && p.list[1].clock == i + 1 && p.list[1].sequence == i);
    }
    assert_ok(ps_state_remove(&p.state));
    place_open(&p);
    assert_false(p.state.begun);
    place_clear(&p);
}

static void push_that_comes_again_is_not_applied(void **state)
{
    (void)state;
    struct place p;
    bool is_new;
    place_init(&p);
    assert_ok(push(&p, 1, 1000, 1, &is_new));
    assert_ok(push(&p, 1, 1000, 1, &is_new));
    assert_false(is_new);
    assert_ok(push(&p, 1, 1000, 2, &is_new));
    place_close(&p);
    place_open(&p);
    assert_ok(push(&p, 1, 1000, 2, &is_new));
    assert_false(is_new);
    assert_ok(push(&p, 1, 1000, 1, &is_new));
    assert_false(is_new);
    assert_toy(&p.toy, 2);
    assert_ok(push(&p, 1, 2000, 1, &is_new)); /* a new process begins to count anew */
    assert_true(is_new && p.state.version == 3);
    assert_err(TY_ABORTED, push(&p, 1, 1000, 9, &is_new));
    assert_message("a later process has taken the place of this worker 0");
    assert_ok(push(&p, 2, 500, 1, &is_new));
    assert_int_equal(p.state.version, 4);
    place_clear(&p);
}

static void torn_log_is_cut_off(void **state)
{
    (void)state;
    struct place p;
    bool is_new;
    place_init(&p);
    char path[100];
    snprintf(path, sizeof path, "%s/log-0", p.dir);
    assert_ok(push(&p, 1, 1000, 1, &is_new));
    off_t one = (off_t)p.state.log_bytes;
    assert_ok(push(&p, 1, 1000, 2, &is_new));
    off_t two = (off_t)p.state.log_bytes;
    for (off_t cut = two - 1; cut >= one; cut -= 7) {
        place_close(&p);
        assert_int_equal(truncate(path, cut), 0);
        place_open(&p);
        assert_toy(&p.toy, 1);
        assert_int_equal(p.state.log_bytes, one);
        assert_ok(push(&p, 1, 1000, 2, &is_new)); /* goes behind the last whole one */
        assert_true(is_new);
        place_close(&p);
        place_open(&p);
        assert_toy(&p.toy, 2);
    }
    place_clear(&p);
}

static void state_of_another_run_is_refused(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    assert_ok(ps_state_begin(&p.state, 42, TOY_STEPS));
    assert_err(TY_FAILED_PRECONDITION, ps_state_begin(&p.state, 43, TOY_STEPS));
    assert_message("another model, parameters, data, steps or seed");
    assert_err(TY_FAILED_PRECONDITION, ps_state_begin(&p.state, 42, TOY_STEPS + 1));
    place_close(&p);
    toy_init(&p.toy, 3); /* another number of servers */
    p.state.arena = (struct ty_arena){0};
    assert_err(TY_FAILED_PRECONDITION, ps_state_open(&p.state));
    assert_message("another model or another cluster");
    ps_state_close(&p.state);
    place_open(&p);
    place_clear(&p);
}

static void folder_in_use_is_refused(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    struct ps_state other = {.dir = p.dir, .lock_fd = -1, .log_fd = -1, .trace_fd = -1};
    assert_err(TY_FAILED_PRECONDITION, ps_state_open(&other));
    char holder[60];
    snprintf(holder, sizeof holder, "is in use by process %d on ", (int)getpid());
    assert_message(holder);
    assert_message(", a ps task of this run or of another one: ");
    ps_state_close(&other);
    place_clear(&p);
}

static void damaged_snapshot_is_told(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    char path[100];
    snprintf(path, sizeof path, "%s/snapshot", p.dir);
    place_close(&p);
    int fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, "x", 1, 300), 1);
    close(fd);
    p.state.arena = (struct ty_arena){0};
    assert_err(TY_DATA_LOSS, ps_state_open(&p.state));
    assert_message("fails its checksum");
    ps_state_close(&p.state);
    assert_int_equal(truncate(path, 0), 0);
    assert_err(TY_DATA_LOSS, ps_state_open(&p.state));
    ps_state_close(&p.state);
    assert_ok(ty_remove_tree(AT_FDCWD, p.dir));
}

static void full_disk_loses_nothing(void **state)
{
    (void)state;
    static const char *const faults[] = {"enospc-write:2", "short-write:2", "write:2"};
    for (size_t i = 0; i < TY_COUNT(faults); i++) {
        struct place p;
        bool is_new;
        place_init(&p);
        setenv("TY_FAULT", faults[i], 1);
        ty_seam_role("train");
        assert_ok(push(&p, 1, 1000, 1, &is_new));
        assert_int_not_equal(push(&p, 1, 1000, 2, &is_new), TY_OK);
        assert_message("the log of updates in");
        assert_toy(&p.toy, 1);
        assert_ok(push(&p, 1, 1000, 2, &is_new)); /* there is room again */
        unsetenv("TY_FAULT");
        ty_seam_role("train");
        place_close(&p);
        place_open(&p);
        assert_toy(&p.toy, 2);
        place_clear(&p);
    }
}

static void failed_snapshot_changes_nothing(void **state)
{
    (void)state;
    static const char *const faults[] = {"enospc-write:1", "write:3", "sync:1", "rename:1"};
    for (size_t i = 0; i < TY_COUNT(faults); i++) {
        struct place p;
        bool is_new;
        place_init(&p);
        assert_ok(push(&p, 1, 1000, 1, &is_new));
        setenv("TY_FAULT", faults[i], 1);
        ty_seam_role("train");
        assert_int_not_equal(ps_state_snapshot(&p.state), TY_OK);
        unsetenv("TY_FAULT");
        ty_seam_role("train");
        assert_ok(push(&p, 1, 1000, 2, &is_new));
        place_close(&p);
        place_open(&p);
        assert_toy(&p.toy, 2);
        place_clear(&p);
    }
}

/* A process that pushes, snapshots, and says each acknowledgement; it ends at step `crash`. */
static void scenario(struct place *p, int fd)
{
    for (unsigned i = 1; i <= 6; i++) {
        bool is_new;
        if (push(p, 1, 1000, i, &is_new) != TY_OK)
            _exit(3);
        unsigned char said = (unsigned char)i;
        if (write(fd, &said, 1) != 1 || (i % 2 == 0 && ps_state_snapshot(&p->state) != TY_OK))
            _exit(4);
    }
    _exit(0);
}

static void crash_at_any_step_loses_nothing(void **state)
{
    (void)state;
    bool finished = false;
    for (int crash = 1; !finished; crash++) {
        struct place p;
        int pipe_fds[2], status;
        unsigned char said = 0;
        char number[20];
        place_init(&p);
        assert_int_equal(pipe(pipe_fds), 0);
        snprintf(number, sizeof number, "train:%d", crash);
        pid_t pid = fork();
        if (pid == 0) {
            setenv("TY_CRASH", number, 1);
            ty_seam_role("train");
            scenario(&p, pipe_fds[1]);
        }
        close(pipe_fds[1]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        assert_true(finished || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        while (read(pipe_fds[0], &said, 1) == 1)
            ;
        close(pipe_fds[0]);
        place_close(&p);
        place_open(&p);
        assert_true(p.state.version == said || p.state.version == said + 1u);
        assert_toy(&p.toy, (unsigned)p.state.version);
        place_clear(&p);
        assert_true(crash < 1000);
    }
}

/* ---- processes ---- */

static void silent_process_is_described(void **state)
{
    (void)state;
    struct ps_process self = ps_process_self(), other = self, child = self;
    int status;
    assert_string_equal(ps_process_state(&self), "cut off: its process is alive");
    other.room++;
    assert_string_equal(ps_process_state(&other), "stopped, dead or cut off");
    assert_string_equal(ps_process_state(&(struct ps_process){0}), "stopped, dead or cut off");
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGSTOP);
        _exit(0);
    }
    child.pid = (uint64_t)pid;
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_string_equal(ps_process_state(&child), "stopped (SIGSTOP)");
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_string_equal(ps_process_state(&child), "dead: its process is gone");
}

static const struct CMUnitTest tests[] = {
    TEST("layout/has_each_number_once", layout_has_each_number_once),
    TEST("layout/pieces_cover_all_arrays", pieces_cover_all_arrays),
    TEST("layout/piece_of_another_is_refused", piece_of_another_is_refused),
    TEST("frame/comes_back", frame_comes_back),
    TEST("frame/with_any_bit_wrong_is_refused", frame_with_any_bit_wrong_is_refused),
    TEST("frame/rows_that_are_not_here_are_refused", rows_that_are_not_here_are_refused),
    TEST("gate/bounds_the_staleness", gate_bounds_the_staleness),
    TEST("gate/lets_only_the_steps_that_are_left_begin",
         gate_lets_only_the_steps_that_are_left_begin),
    TEST("gate/lets_the_last_steps_begin_one_after_another",
         gate_lets_the_last_steps_begin_one_after_another),
    TEST("gate/who_is_silent_leaves_and_comes_back_at_the_least",
         who_is_silent_leaves_and_comes_back_at_the_least),
    TEST("gate/silent_watcher_is_told_once", silent_watcher_is_told_once),
    TEST("store/replays_what_was_acknowledged", store_replays_what_was_acknowledged),
    TEST("store/push_that_comes_again_is_not_applied", push_that_comes_again_is_not_applied),
    TEST("store/torn_log_is_cut_off", torn_log_is_cut_off),
    TEST("store/state_of_another_run_is_refused", state_of_another_run_is_refused),
    TEST("store/folder_in_use_is_refused", folder_in_use_is_refused),
    TEST("store/damaged_snapshot_is_told", damaged_snapshot_is_told),
    TEST("store/full_disk_loses_nothing", full_disk_loses_nothing),
    TEST("store/failed_snapshot_changes_nothing", failed_snapshot_changes_nothing),
    TEST("store/crash_at_any_step_loses_nothing", crash_at_any_step_loses_nothing),
    TEST("process/silent_one_is_described", silent_process_is_described),
};
TEST_MAIN("ps", tests)

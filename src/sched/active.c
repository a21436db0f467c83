/* active.c -- the jobs that have not ended: a table by id, and the two lists. */
#include "sched/sched_int.h"

#include "wire/wire.h"

#include <sys/epoll.h>

static struct active **bucket_of(struct sched *s, int64_t id)
{
    uint64_t mixed = (uint64_t)id * 0x9e3779b97f4a7c15u;
    return &s->buckets[mixed >> 52];
}

struct active *active_find(struct sched *s, int64_t id)
{
    struct active *j = *bucket_of(s, id);
    while (j && j->id != id)
        j = j->next_in_bucket;
    return j;
}

static void list_remove(struct active_list *l, struct active *j)
{
    *(j->prev ? &j->prev->next : &l->first) = j->next;
    *(j->next ? &j->next->prev : &l->last) = j->prev;
    j->prev = j->next = NULL;
    l->count--;
}

/* Ordered by id, which is by age. New jobs belong at the end, so look from there. */
static void list_insert(struct active_list *l, struct active *j)
{
    struct active *before = l->last;
    while (before && before->id > j->id)
        before = before->prev;
    j->prev = before;
    j->next = before ? before->next : l->first;
    *(before ? &before->next : &l->first) = j;
    *(j->next ? &j->next->prev : &l->last) = j;
    l->count++;
}

static void wait_begin(struct sched *s, struct active *j)
{
    list_insert(&s->waiting, j);
}

static void wait_end(struct sched *s, struct active *j)
{
    list_remove(&s->waiting, j);
}

/* What the scheduler needs of a job's spec. A spec that does not parse was never accepted. */
static void read_scheduling(const struct job *job, struct active *j)
{
    json_t *body = NULL;
    j->max_wait_ms = INT64_MAX;
    if (wire_json_parse_members(job->body, &body) == TY_OK) {
        const json_t *spec = json_object_get(body, "jobSpec");
        const json_t *scheduling = json_object_get(spec, "scheduling");
        j->ask = sched_ask(spec);
        j->disable_retries = json_is_true(json_object_get(scheduling, "disableRetries"));
        ty_str wait = wire_json_get_str(scheduling, "maxWaitDuration");
        int64_t ms;
        if (wait.len && wire_duration_parse(wait, &ms) == TY_OK && ms > 0)
            j->max_wait_ms = ms;
    }
    json_decref(body);
    j->ask.jobs = 1;
    j->ask.replicas = job->replicas; /* the row's count is what slots are held by */
}

/* By the boot clock if the machine has not been down since. */
int64_t active_wait_began_ms(const struct job *job, ty_str boot_id)
{
    if (ty_str_eq(job->boot_id, boot_id) && job->wait_boot_ms <= ty_boot_ms())
        return job->wait_boot_ms;
    int64_t waited_ms = (ty_now_ns() - job->create_ns) / 1000000;
    return ty_boot_ms() - (waited_ms > 0 ? waited_ms : 0);
}

int64_t active_wait_left_ms(const struct job *job, ty_str boot_id)
{
    struct active read = {0};
    read_scheduling(job, &read);
    if (read.max_wait_ms == INT64_MAX)
        return INT64_MAX;
    return read.max_wait_ms - (ty_boot_ms() - active_wait_began_ms(job, boot_id));
}

struct active *active_add(struct sched *s, const struct job *job)
{
    struct active *j = calloc(1, sizeof *j);
    ty_assert(j);
    *j = (struct active){.id = job->id,
                         .state = job->state,
                         .moving = job->state,
                         .replicas = job->replicas,
                         .attempt = job->attempt,
                         .retries = job->retries,
                         .ran_ms = job->ran_ms,
                         .cancel_requested = job->cancel_requested,
                         .fd = -1,
                         .wait_boot_ms = ty_boot_ms()};
    read_scheduling(job, j);
    struct active **bucket = bucket_of(s, j->id);
    j->next_in_bucket = *bucket;
    *bucket = j;
    wait_begin(s, j);
    return j;
}

/* Add what the job uses, or (sign -1) take it away. */
static void use(struct sched *s, const struct active *j, int sign)
{
    s->used.jobs += sign;
    s->used.replicas += sign * j->replicas;
    s->used.cpu_milli += sign * j->ask.cpu_milli;
    s->used.memory_bytes += sign * j->ask.memory_bytes;
    s->used.devices += sign * devices_count(s->setup.host, ty_str_of(j->devices));
}

void active_place(struct sched *s, struct active *j, int *ports, char *devices)
{
    wait_end(s, j);
    list_insert(&s->placed, j);
    j->placed = true;
    j->running = j->started = j->look_again = j->cancel_sent = false;
    j->ports = ports;
    j->devices = devices;
    j->placed_boot_ms = ty_boot_ms();
    use(s, j, 1);
    s->starting++;
}

void active_started(struct sched *s, struct active *j)
{
    s->starting -= !j->started;
    j->started = true;
}

static void placed_end(struct sched *s, struct active *j)
{
    active_disconnect(s, j);
    if (j->look)
        s->looks--;
    use(s, j, -1);
    active_started(s, j);
    ports_give(&s->ports, j->ports, j->replicas);
    free(j->ports);
    devices_give(&s->devices, ty_str_of(j->devices));
    free(j->devices);
    j->ports = NULL;
    j->devices = NULL;
    j->placed = j->running = j->look = j->look_again = false;
    list_remove(&s->placed, j);
}

void active_unplace(struct sched *s, struct active *j)
{
    placed_end(s, j);
    j->wait_boot_ms = ty_boot_ms();
    wait_begin(s, j);
}

void active_remove(struct sched *s, struct active *j)
{
    if (j->placed)
        placed_end(s, j);
    else
        wait_end(s, j);
    struct active **at = bucket_of(s, j->id);
    while (*at != j)
        at = &(*at)->next_in_bucket;
    *at = j->next_in_bucket;
    free(j->broken);
    free(j);
}

void active_look(struct sched *s, struct active *j)
{
    if (!j->look && j->placed) {
        j->look = true;
        s->looks++;
    }
}

void active_disconnect(struct sched *s, struct active *j)
{
    if (j->fd < 0)
        return;
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, j->fd, NULL);
    close(j->fd);
    j->fd = -1;
}

void active_connect(struct sched *s, struct active *j, int fd)
{
    active_disconnect(s, j);
    j->fd = fd;
    j->cancel_sent = false;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = j};
    ty_assert(epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0);
}

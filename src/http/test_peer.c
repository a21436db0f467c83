/* test_peer.c -- who the other end of a connection is, and what strangers get. */
#include "http/test_server.h"

/* ---- who the peer is ---- */

static int listen_here(struct sockaddr_in *addr)
{
    *addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(*addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)addr, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    getsockname(fd, (struct sockaddr *)addr, &len);
    return fd;
}

static int client_socket(uint16_t port)
{
    struct sockaddr_in from = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = port};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    return fd;
}

static uint16_t socket_port(int fd)
{
    struct sockaddr_in in = {0};
    socklen_t len = sizeof(in);
    getsockname(fd, (struct sockaddr *)&in, &len);
    return in.sin_port;
}

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
}

static void peer_rules(enum peer_method method)
{
    struct peer p;
    struct sockaddr_in addr;
    int listener = listen_here(&addr);
    assert_ok(peer_open(&p, method));

    int client = client_socket(0);
    assert_int_equal(connect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
    int accepted = accept(listener, NULL, NULL);
    assert_ok(peer_check(&p, accepted, geteuid()));
    assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, geteuid() + 1));
    shutdown(client, SHUT_WR); /* half closed is still there */
    assert_ok(peer_check(&p, accepted, geteuid()));
    close(client); /* an owner that has left: uid 0, inode 0 */
    assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, geteuid()));
    assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, 0));
    close(accepted);

    /* Reset, and then the same port is used again by us: that one does not speak for the first. */
    client = client_socket(0);
    uint16_t port = socket_port(client);
    assert_int_equal(connect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(send(client, "x", 1, 0), 1);
    reset(client);
    int again = client_socket(port);
    assert_int_equal(connect(again, (struct sockaddr *)&addr, sizeof(addr)), 0);
    accepted = accept(listener, NULL, NULL);
    int second = accept(listener, NULL, NULL);
    assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, geteuid()));
    assert_ok(peer_check(&p, second, geteuid()));
    reset(again);
    close(accepted);
    close(second);

    /* Reset, and then someone of ours listens on that port. */
    client = client_socket(0);
    port = socket_port(client);
    assert_int_equal(connect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
    accepted = accept(listener, NULL, NULL);
    reset(client);
    int other = client_socket(port);
    assert_int_equal(listen(other, 1), 0);
    assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, geteuid()));
    close(other);
    close(accepted);
    close(listener);
    peer_close(&p);
}

static void peer_sock_diag(void **state)
{
    (void)state;
    struct peer p;
    if (peer_open(&p, PEER_SOCK_DIAG) != TY_OK) {
        print_message("no sock_diag here\n");
        skip();
    }
    peer_close(&p);
    peer_rules(PEER_SOCK_DIAG);
}

static void peer_proc(void **state)
{
    (void)state;
    peer_rules(PEER_PROC);
}

/* An AF_INET6 socket connected to ::ffff:127.0.0.1, and a plain IPv6 one. */
static void peer_ipv6(void **state)
{
    (void)state;
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)yard.port)};
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        print_message("no IPv6 here\n");
        skip();
    }
    assert_int_equal(connect(fd, (struct sockaddr *)&mapped, sizeof(mapped)), 0);
    say(fd, "GET /echo/mapped HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    assert_has(hear(fd), "[mapped]");
    close(fd);

    static const enum peer_method methods[] = {PEER_SOCK_DIAG, PEER_PROC};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6}; /* dual stack: [::] */
    socklen_t len = sizeof(in6);
    int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&in6, len), 0);
    assert_int_equal(listen(listener, 8), 0);
    getsockname(listener, (struct sockaddr *)&in6, &len);
    static const char *const hosts[] = {"::1", "::ffff:127.0.0.1"};
    for (size_t i = 0; i < TY_COUNT(hosts); i++) {
        inet_pton(AF_INET6, hosts[i], &in6.sin6_addr);
        int client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(client, (struct sockaddr *)&in6, sizeof(in6)), 0);
        int accepted = accept(listener, NULL, NULL);
        for (size_t m = 0; m < TY_COUNT(methods); m++) {
            struct peer p;
            assert_ok(peer_open(&p, methods[m]));
            assert_ok(peer_check(&p, accepted, geteuid()));
            assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, geteuid() + 1));
            peer_close(&p);
        }
        assert_ok(http_peer_check(accepted, geteuid()));
        close(client);
        close(accepted);
    }
    close(listener);
}

static void other_user(bool wait)
{
    static const char request[] =
        "GET /echo/stranger HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";
    for (int i = 0; i < 200; i++) {
        char byte;
        int fd = dial_family(AF_INET);
        if (fd < 0)
            _exit(2);
        (void)!send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL);
        if (wait && recv(fd, &byte, 1, 0) > 0)
            _exit(1); /* we were answered */
        close(fd);
    }
    _exit(dial_family(AF_UNIX) < 0 ? 0 : 3);
}

static void peer_other_users_get_nothing(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("needs root to become another user: skipped\n");
        skip();
    }
    int before = echo_runs;
    uint64_t refused = stats().refused_peers;
    pid_t children[4];
    for (size_t i = 0; i < TY_COUNT(children); i++) {
        children[i] = fork();
        if (children[i] == 0) {
            if (setuid(NOBODY) != 0)
                _exit(4);
            other_user(i % 2 == 0);
        }
    }
    for (size_t i = 0; i < TY_COUNT(children); i++) {
        int status = 0;
        assert_status(ask_headers("GET /echo/x", HOST), 200);
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < 2000 && stats().refused_peers - refused < 800; i++)
        usleep(1000);
    assert_int_equal(stats().refused_peers - refused, 800);
    assert_int_equal(echo_runs - before, TY_COUNT(children));
}

static const struct CMUnitTest tests[] = {
    TEST("peer/sock_diag", peer_sock_diag),
    TEST("peer/proc", peer_proc),
    TEST("peer/ipv6", peer_ipv6),
    TEST("peer/other_users_get_nothing", peer_other_users_get_nothing),
};
TEST_SERVER_MAIN("http_peer", tests)

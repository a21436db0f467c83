/* preload.c -- brings the gs:// of TensorFlow here: a small library that the loader puts into a
 * job's processes (LD_PRELOAD), built by itself and kept as bytes in the binary.
 *
 * TensorFlow's file system for gs:// is compiled in and knows no address but Google's, port 443. So
 * when TensorFlow's own libraries look up one of the hosts below, they get 127.84.89.1, an address
 * of this machine that nobody else uses, and a connection to that address, port 443, is made to
 * the server's port on 127.0.0.1 instead (TRAINYARD_URL has it), where TLS is spoken with a
 * certificate that CURL_CA_BUNDLE vouches for. What decides is who calls, told by the file that
 * the caller's code is in: a download of https://storage.googleapis.com/... by Python or curl goes
 * where it always did, as does every other host.
 *
 * A replica in a container may be another user, whom the server answers only by its token, and who
 * speaks TLS cannot show one before he is answered. So each such connection begins with the token,
 * in the shape of a request (http's foreign.c reads it); TLS comes right behind it.
 *
 * It runs inside of other people's programs, also in containers with an older C library: it keeps
 * no state, allocates nothing, and needs only symbols that are 20 years old. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* As any C library has them, not as the newest calls them. */
#if defined(__x86_64__)
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver dladdr,dladdr@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlsym,dlsym@GLIBC_2.17");
__asm__(".symver dladdr,dladdr@GLIBC_2.17");
#endif

#define EXPORT __attribute__((visibility("default")))

#define STANDS_FOR_GOOGLE "127.84.89.1"
enum {
    GOOGLES_PORT = 443,
    STANDS_FOR_GOOGLE_BITS = 0x7f545901,
    CONNECT_MS = 10000,
    HELLO_BYTES = 512
};

static int is_storage_host(const char *host)
{
    static const char *const hosts[] = {"storage.googleapis.com", "www.googleapis.com",
                                        "oauth2.googleapis.com"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (strcasecmp(host, hosts[i]) == 0)
            return 1;
    return 0;
}

/* The port of TRAINYARD_URL, http://127.0.0.1:PORT; 0: there is none. */
static int server_port(void)
{
    const char *url = getenv("TRAINYARD_URL");
    const char *colon = url ? strrchr(url, ':') : NULL;
    int port = 0;
    for (const char *p = colon ? colon + 1 : ""; *p >= '0' && *p <= '9' && port < 65536; p++)
        port = port * 10 + (*p - '0');
    return port < 65536 ? port : 0;
}

/* Is `code` in a library of TensorFlow's? */
static int is_tensorflow(void *code)
{
    Dl_info info;
    if (!dladdr(code, &info) || !info.dli_fname)
        return 0;
    const char *slash = strrchr(info.dli_fname, '/');
    return strstr(slash ? slash : info.dli_fname, "tensorflow") != NULL;
}

EXPORT int getaddrinfo(const char *name, const char *service, const struct addrinfo *req,
                       struct addrinfo **pai)
{
    static int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!next)
        return EAI_SYSTEM;
    if (name && is_storage_host(name) && is_tensorflow(__builtin_return_address(0)) &&
        server_port() > 0)
        name = STANDS_FOR_GOOGLE;
    return next(name, service, req, pai);
}

/* A connection that was begun is there: 0, or -1 and errno. */
static int connect_wait(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int failed = 0, n;
    socklen_t len = sizeof failed;
    while ((n = poll(&ready, 1, CONNECT_MS)) < 0 && errno == EINTR)
        ;
    if (n == 0)
        failed = ETIMEDOUT;
    else if (n < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0)
        failed = errno;
    errno = failed;
    return failed ? -1 : 0;
}

/* Say who we are. Loopback takes so few bytes at once. */
static int introduce(int fd)
{
    char hello[HELLO_BYTES];
    const char *token = getenv("TRAINYARD_TOKEN");
    int n = token ? snprintf(hello, sizeof hello,
                             "CONNECT trainyard HTTP/1.1\r\nX-Trainyard-Token: %s\r\n\r\n", token)
                  : 0;
    if (n <= 0 || n >= (int)sizeof hello)
        return 0;
    if (send(fd, hello, (size_t)n, MSG_NOSIGNAL) == n)
        return 0;
    errno = ECONNRESET;
    return -1;
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    static int (*next)(int, const struct sockaddr *, socklen_t);
    struct sockaddr_in here;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "connect");
    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    if (!addr || addr->sa_family != AF_INET || len < sizeof here)
        return next(fd, addr, len);
    here = *(const struct sockaddr_in *)(const void *)addr;
    if (here.sin_addr.s_addr != htonl(STANDS_FOR_GOOGLE_BITS) ||
        here.sin_port != htons(GOOGLES_PORT) || server_port() == 0)
        return next(fd, addr, len);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    here.sin_port = htons((unsigned short)server_port());
    if (next(fd, (const struct sockaddr *)&here, sizeof here) != 0 &&
        (errno != EINPROGRESS || connect_wait(fd) != 0))
        return -1;
    return introduce(fd);
}

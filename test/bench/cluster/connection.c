/*
 * Measures connections between two network namespaces. It holds both ends on one processor, where no other thread is
 * woken, so that it measures only the path of the packets through the kernel.
 *
 *   connection KIND COUNT CLIENT_NAMESPACE SERVER_NAMESPACE LISTEN_ADDRESS DESTINATION_ADDRESS PORT
 *
 * KIND is one of
 *   tcp-connect    the call connect()
 *   udp-connect    the first datagram of a new socket, until the server has it, and its answer
 *   tcp-exchange   one byte and its answer, on one connection
 *   udp-exchange   one datagram and its answer, from one socket
 *
 * Prints the median and the lowest decile of COUNT measurements, in nanoseconds. Exits with 1 and the reason when
 * anything fails.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WARM_UP = 200, BACKLOG = 128, PATIENCE_MILLISECONDS = 2000 };

union address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

static void fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

static int checked(int result, const char *what) {
  if (result < 0) fail(what);
  return result;
}

static void enter(const char *path) {
  int descriptor = checked(open(path, O_RDONLY | O_CLOEXEC), path);
  checked(setns(descriptor, CLONE_NEWNET), "setns");
  close(descriptor);
}

static socklen_t parse(const char *text, int port, union address *to) {
  memset(to, 0, sizeof *to);
  if (inet_pton(AF_INET, text, &to->v4.sin_addr) == 1) {
    to->v4.sin_family = AF_INET;
    to->v4.sin_port = htons((uint16_t)port);
    return sizeof to->v4;
  }
  if (inet_pton(AF_INET6, text, &to->v6.sin6_addr) == 1) {
    to->v6.sin6_family = AF_INET6;
    to->v6.sin6_port = htons((uint16_t)port);
    return sizeof to->v6;
  }
  errno = EINVAL;
  fail(text);
  return 0;
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Waits for data that is normally there already, except when the kernel has handed the packets to its own thread. */
static void await_input(int descriptor) {
  struct pollfd one = {.fd = descriptor, .events = POLLIN};
  int ready = checked(poll(&one, 1, PATIENCE_MILLISECONDS), "poll");
  if (ready == 0) {
    errno = ETIMEDOUT;
    fail("a packet was lost");
  }
}

static int accept_one(int listener) {
  int accepted = accept(listener, NULL, NULL);
  if (accepted >= 0) return accepted;
  if (errno != EAGAIN) fail("accept");
  await_input(listener);
  return checked(accept(listener, NULL, NULL), "accept");
}

static void close_at_once(int descriptor) {
  struct linger none = {.l_onoff = 1, .l_linger = 0};
  checked(setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &none, sizeof none), "SO_LINGER");
  close(descriptor);
}

static void receive_byte(int descriptor) {
  char byte;
  ssize_t size = recv(descriptor, &byte, 1, MSG_DONTWAIT);
  if (size < 0 && errno == EAGAIN) {
    await_input(descriptor);
    size = recv(descriptor, &byte, 1, MSG_DONTWAIT);
  }
  if (size != 1) fail("recv");
}

static void send_byte(int descriptor) {
  if (send(descriptor, "x", 1, 0) != 1) fail("send");
}

static int client_socket(int family, int type) {
  return checked(socket(family, type | SOCK_CLOEXEC, 0), "socket");
}

static void connect_to(int descriptor, const union address *to, socklen_t length) {
  checked(connect(descriptor, &to->any, length), "connect");
}

static int64_t tcp_connect(int listener, const union address *to, socklen_t length) {
  int client = client_socket(to->any.sa_family, SOCK_STREAM);
  int64_t start = now();
  connect_to(client, to, length);
  int64_t taken = now() - start;
  int accepted = accept_one(listener);
  close_at_once(client);
  close(accepted);
  return taken;
}

static void answer_datagram(int server) {
  char byte;
  union address from;
  socklen_t size = sizeof from;
  if (recvfrom(server, &byte, 1, MSG_DONTWAIT, &from.any, &size) != 1) {
    if (errno != EAGAIN) fail("recvfrom");
    await_input(server);
    size = sizeof from;
    if (recvfrom(server, &byte, 1, MSG_DONTWAIT, &from.any, &size) != 1) fail("recvfrom");
  }
  if (sendto(server, "x", 1, 0, &from.any, size) != 1) fail("sendto");
}

static int64_t exchange_datagram(int client, int server) {
  int64_t start = now();
  send_byte(client);
  answer_datagram(server);
  receive_byte(client);
  return now() - start;
}

static int64_t udp_connect(int server, const union address *to, socklen_t length) {
  int client = client_socket(to->any.sa_family, SOCK_DGRAM);
  connect_to(client, to, length);
  int64_t taken = exchange_datagram(client, server);
  close(client);
  return taken;
}

static int64_t exchange_stream(int client, int accepted) {
  int64_t start = now();
  send_byte(client);
  receive_byte(accepted);
  send_byte(accepted);
  receive_byte(client);
  return now() - start;
}

static int compare(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a;
  int64_t right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

int main(int argc, char **argv) {
  if (argc != 8) {
    fprintf(stderr, "expected KIND COUNT CLIENT_NAMESPACE SERVER_NAMESPACE LISTEN_ADDRESS DESTINATION_ADDRESS PORT\n");
    return 1;
  }
  const char *kind = argv[1];
  int count = atoi(argv[2]);
  int port = atoi(argv[7]);
  int is_stream = strncmp(kind, "tcp", 3) == 0;
  int is_exchange = strcmp(kind + 3, "-exchange") == 0;
  int64_t *taken = calloc((size_t)count, sizeof *taken);
  if (count < 1 || taken == NULL) {
    errno = EINVAL;
    fail("COUNT");
  }
  /* Packets are handled on the processor that sends them. A higher priority, where permitted, avoids interruptions. */
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(checked(sched_getcpu(), "sched_getcpu"), &here);
  checked(sched_setaffinity(0, sizeof here, &here), "sched_setaffinity");
  (void)setpriority(PRIO_PROCESS, 0, -20);

  union address listen_at, to;
  socklen_t listen_length = parse(argv[5], port, &listen_at);
  socklen_t length = parse(argv[6], port, &to);
  enter(argv[4]);
  int server = checked(
      socket(listen_at.any.sa_family, (is_stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
  int on = 1;
  checked(setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "SO_REUSEADDR");
  checked(bind(server, &listen_at.any, listen_length), "bind");
  if (is_stream) checked(listen(server, BACKLOG), "listen");
  enter(argv[3]);

  int client = -1, accepted = -1;
  if (is_exchange) {
    client = client_socket(to.any.sa_family, is_stream ? SOCK_STREAM : SOCK_DGRAM);
    connect_to(client, &to, length);
    if (is_stream) {
      accepted = accept_one(server);
      checked(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
      checked(setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
    }
  }
  for (int i = -WARM_UP; i < count; i++) {
    int64_t one = is_exchange ? (is_stream ? exchange_stream(client, accepted) : exchange_datagram(client, server))
                              : (is_stream ? tcp_connect(server, &to, length) : udp_connect(server, &to, length));
    if (i >= 0) taken[i] = one;
  }
  qsort(taken, (size_t)count, sizeof *taken, compare);
  printf("%lld %lld\n", (long long)taken[count / 2], (long long)taken[count / 10]);
  return 0;
}

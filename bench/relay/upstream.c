/* upstream PORT: a model server that uses next to no CPU, so that the proxy dominates the measurement.

   Any request gets 1 KB of JSON. With the field X-Chunks-Per-Second it gets an endless stream of events at that rate,
   each with its number and the monotonic time of writing. GET /counts returns connections accepted, requests served and streams open.
   A slow reader slows only its own stream: no event is ever dropped or cut. One thread, epoll, loopback. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "event.h"

#define MOST_FDS 32768
#define SLOTS 2048 /* of one millisecond; the slowest rate is one event per second */
#define MS 1000000LL

typedef struct Connection {
  int fd, length;
  long long body_left;
  int rate;
  unsigned number;
  long long due;
  struct Connection *next, **previous; /* in its slot; previous is NULL if it is in none */
  int unsent, unsent_at;
  char head[8192], event[512];
} Connection;

static Connection *connections[MOST_FDS];
static Connection *slots[SLOTS];
static long long turned; /* the millisecond up to which the slots were emptied */
static long accepted, requests, streams;
static int poll_fd;
static char answer[2048];
static int answer_length;

static const char STREAM_HEAD[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";

static void watch(Connection *c, int operation, unsigned events) {
  struct epoll_event e = {.events = events, .data.fd = c->fd};
  epoll_ctl(poll_fd, operation, c->fd, &e);
}

static void schedule(Connection *c) {
  Connection **slot = &slots[c->due / MS % SLOTS];
  c->next = *slot;
  c->previous = slot;
  if (c->next) c->next->previous = &c->next;
  *slot = c;
}

static void unschedule(Connection *c) {
  if (!c->previous) return;
  *c->previous = c->next;
  if (c->next) c->next->previous = c->previous;
  c->previous = NULL;
}

static void hang_up(Connection *c) {
  if (c->rate) streams--;
  unschedule(c);
  connections[c->fd] = NULL;
  close(c->fd);
  free(c);
}

static void accept_all(int listener) {
  int fd, one = 1;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    accepted++;
    if (fd >= MOST_FDS) {
      close(fd);
      continue;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    Connection *c = connections[fd] = calloc(1, sizeof *c);
    c->fd = fd;
    watch(c, EPOLL_CTL_ADD, EPOLLIN);
  }
}

static int send_whole(Connection *c, const char *text, int length) { return write(c->fd, text, length) == length; }

static int send_counts(Connection *c) {
  char body[128], text[256];
  accepted--, requests--; /* this request does not count */
  int n = snprintf(body, sizeof body, "{\"accepted\":%ld,\"requests\":%ld,\"streams\":%ld}", accepted, requests, streams);
  n = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n, body);
  return send_whole(c, text, n);
}

static int begin_stream(Connection *c) {
  streams++;
  c->number = 0;
  c->due = now_ns() + 1000000000LL / c->rate;
  schedule(c);
  return send_whole(c, STREAM_HEAD, sizeof STREAM_HEAD - 1);
}

static int reply(Connection *c) {
  c->length = 0;
  requests++;
  if (c->rate) return begin_stream(c);
  return strncmp(c->head, "GET /counts", 11) ? send_whole(c, answer, answer_length) : send_counts(c);
}

/* Read the head; 0 on anything this server does not understand. */
static int understand(Connection *c) {
  c->head[c->length] = 0;
  char *end = strstr(c->head, "\r\n\r\n");
  if (!end) return c->length < (int)sizeof c->head - 1;
  char *length = strcasestr(c->head, "content-length:"), *rate = strcasestr(c->head, RATE_FIELD);
  if (strcasestr(c->head, "transfer-encoding:")) return 0;
  c->rate = rate && rate < end ? atoi(rate + sizeof RATE_FIELD - 1) : 0;
  c->body_left = (length && length < end ? atoll(length + 15) : 0) - (c->length - (end + 4 - c->head));
  if (c->body_left < 0 || c->rate < 0 || c->rate > 1000) return 0;
  return c->body_left ? 1 : reply(c);
}

static int take(Connection *c) {
  static char sink[1 << 18];
  char *into = c->body_left ? sink : c->head + c->length;
  long long room = c->body_left ? (long long)sizeof sink : (long long)sizeof c->head - 1 - c->length;
  if (c->body_left && c->body_left < room) room = c->body_left;
  int n = read(c->fd, into, room);
  if (n <= 0) return n < 0 && errno == EAGAIN;
  if (c->rate && !c->body_left) return 0; /* nothing may follow a request for a stream */
  if (!c->body_left) {
    c->length += n;
    return understand(c);
  }
  c->body_left -= n;
  return c->body_left ? 1 : reply(c);
}

static void write_event(Connection *c) {
  char text[480];
  int n = snprintf(text, sizeof text, EVENT_FORMAT, c->number++, now_ns());
  c->unsent = snprintf(c->event, sizeof c->event, "%x\r\n%s\r\n", n, text);
  c->unsent_at = 0;
}

static void plan_next(Connection *c, long long now) {
  c->due += 1000000000LL / c->rate;
  if (c->due < now + MS) c->due = now + MS; /* late: no burst to catch up */
  schedule(c);
}

static void serve_slot(Connection **slot, long long now) {
  Connection *c = *slot, *next;
  *slot = NULL;
  for (; c; c = next) {
    next = c->next;
    c->previous = NULL;
    write_event(c);
    int n = write(c->fd, c->event, c->unsent);
    if (n == c->unsent) {
      c->unsent = 0;
      plan_next(c, now);
    } else if (n < 0 && errno != EAGAIN) {
      hang_up(c);
    } else {
      if (n > 0) c->unsent -= n, c->unsent_at = n;
      watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    }
  }
}

static void turn(void) {
  long long now = now_ns();
  if (now / MS - turned > SLOTS) turned = now / MS - SLOTS;
  while (turned < now / MS) serve_slot(&slots[++turned % SLOTS], now);
}

static int resume(Connection *c) {
  int n = write(c->fd, c->event + c->unsent_at, c->unsent);
  if (n < 0) return errno == EAGAIN;
  c->unsent -= n, c->unsent_at += n;
  if (c->unsent) return 1;
  watch(c, EPOLL_CTL_MOD, EPOLLIN);
  plan_next(c, now_ns());
  return 1;
}

static int listen_on(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(fd, (void *)&here, sizeof here) || listen(fd, 4096)) {
    perror("upstream: cannot listen");
    exit(1);
  }
  struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e);
  return fd;
}

static void write_answer(void) {
  char content[801], body[1200];
  memset(content, 'x', 800);
  content[800] = 0;
  int n = snprintf(body, sizeof body,
                   "{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion\",\"created\":1700000000,"
                   "\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\"},"
                   "\"finish_reason\":\"stop\"}]}", content);
  answer_length = snprintf(answer, sizeof answer,
                           "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n, body);
}

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: upstream PORT\n"), 2;
  signal(SIGPIPE, SIG_IGN); /* a reader that disconnects must not end the server */
  write_answer();
  poll_fd = epoll_create1(EPOLL_CLOEXEC);
  int listener = listen_on(atoi(argv[1]));
  turned = now_ns() / MS;
  struct epoll_event events[256];
  for (;;) {
    int n = epoll_wait(poll_fd, events, 256, streams ? 1 : -1);
    if (!streams) turned = now_ns() / MS;
    for (int i = 0; i < n; i++) {
      int fd = events[i].data.fd;
      if (fd == listener) {
        accept_all(listener);
        continue;
      }
      Connection *c = connections[fd];
      int well = 1;
      if (events[i].events & EPOLLOUT) well = resume(c);
      if (well && events[i].events & ~EPOLLOUT) well = take(c);
      if (!well) hang_up(c);
    }
    turn();
  }
}

/* streams PORT COUNT RATE WARM_S MEASURE_S PATH: reads COUNT streams and checks every event.
   Under /api/ the events are lines that hotseat has translated; they have neither number nor time.

   The window begins WARM_S after every stream has received its first event. Prints START and END at its edges, so that
   the parent can read CPU and memory at these moments; then one line of JSON: events, delays (from the time in an event
   to its arrival here), and errors: answers other than 200, broken framing, numbers out of order, streams cut, streams
   that received nothing. */
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

#define LONGEST_US 4000000
#define PACE_NS 1000000LL /* between two starts, so that events of the streams do not coincide */
#define PATIENCE_NS 30000000000LL /* for the first event of every stream */

typedef enum { HEAD, SIZE, DATA, AFTER } Place;
typedef struct {
  int fd, length;
  Place place;
  long left;
  unsigned next, measured;
  char text[2048]; /* the head, then the incomplete line */
} Stream;

static unsigned delays[LONGEST_US + 1];
static long begun, events, refused, garbled, disordered, cut;
static int is_measuring, is_translated;

static int is_line(const Stream *s) {
  static const char end[] = LINE_END;
  int from = s->length - (int)(sizeof end - 1);
  return from > 0 && !strncmp(s->text, LINE_START, sizeof LINE_START - 1) && !strcmp(s->text + from, end);
}

static void read_line(Stream *s) {
  begun += !s->next++;
  if (!is_line(s)) garbled++;
  if (!is_measuring) return;
  delays[0]++;
  events++;
  s->measured++;
}

static void read_event(Stream *s, long long now) {
  s->text[s->length] = 0;
  if (s->length == 0) return;
  if (is_translated) {
    read_line(s);
    return;
  }
  if (strncmp(s->text, EVENT_START, NUMBER_AT) || s->length < STAMP_AT + 19) {
    garbled++;
    return;
  }
  begun += !s->next;
  if (strtoul(s->text + NUMBER_AT, NULL, 10) != s->next) disordered++;
  s->next++;
  if (!is_measuring) return;
  long long us = (now - strtoll(s->text + STAMP_AT, NULL, 10)) / 1000;
  delays[us < 0 ? 0 : us > LONGEST_US ? LONGEST_US : us]++;
  events++;
  s->measured++;
}

static int read_text(Stream *s, const char *from, int count, long long now) {
  while (count) {
    const char *newline = memchr(from, '\n', count);
    int n = newline ? newline - from : count;
    if (s->length + n >= (int)sizeof s->text) return garbled++, 0;
    memcpy(s->text + s->length, from, n);
    s->length += n;
    if (!newline) return 1;
    read_event(s, now);
    s->length = 0;
    from += n + 1;
    count -= n + 1;
  }
  return 1;
}

/* Parse one byte of the head or of the framing; 0 if it is invalid. */
static int read_frame(Stream *s, char byte) {
  if (s->length + 1 >= (int)sizeof s->text) return garbled++, 0;
  if (s->place == HEAD) {
    s->text[s->length++] = byte;
    s->text[s->length] = 0;
    if (s->length < 4 || memcmp(s->text + s->length - 4, "\r\n\r\n", 4)) return 1;
    if (strncmp(s->text, "HTTP/1.1 200", 12)) return refused++, 0;
    if (!strcasestr(s->text, "transfer-encoding: chunked")) return garbled++, 0;
    s->place = SIZE;
    s->length = s->left = 0;
    return 1;
  }
  if (s->place == AFTER) {
    if (byte == '\n') s->place = SIZE, s->left = 0;
    return byte == '\n' || byte == '\r' ? 1 : (garbled++, 0);
  }
  if (byte == '\n') {
    s->place = DATA;
    return s->left ? 1 : (cut++, 0); /* the upstream never ends a stream */
  }
  if (byte == '\r') return 1;
  const char *digit = strchr("0123456789abcdef", byte | 0x20);
  if (!digit || !byte) return garbled++, 0;
  s->left = s->left * 16 + (digit - "0123456789abcdef");
  return 1;
}

static int read_bytes(Stream *s, const char *from, const char *end, long long now) {
  while (from < end) {
    if (s->place != DATA) {
      if (!read_frame(s, *from++)) return 0;
      continue;
    }
    int n = end - from < s->left ? end - from : s->left;
    if (!read_text(s, from, n, now)) return 0;
    from += n;
    s->left -= n;
    if (!s->left) s->place = AFTER;
  }
  return 1;
}

static void serve(Stream *s) {
  static char bytes[1 << 16];
  int n = recv(s->fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) cut++;
  if (n <= 0 || !read_bytes(s, bytes, bytes + n, now_ns())) {
    close(s->fd);
    s->fd = -1;
  }
}

static void open_stream(Stream *s, int poll_fd, int port, int rate, const char *path) {
  static const char body[] = "{\"model\":\"bench\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}";
  char request[1024];
  int one = 1, n = snprintf(request, sizeof request,
      "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
      "Accept: text/event-stream\r\n%s %d\r\nContent-Length: %zu\r\n\r\n%s", path, port, RATE_FIELD, rate, sizeof body - 1, body);
  struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  s->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (s->fd < 0 || connect(s->fd, (void *)&there, sizeof there) || write(s->fd, request, n) != n) {
    perror("streams: cannot open a stream");
    exit(1);
  }
  setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, s->fd, &e);
}

static int percentile(double part) {
  long rank = part * (events - 1), seen = 0;
  for (int us = 0; us <= LONGEST_US; us++)
    if ((seen += delays[us]) > rank) return us;
  return -1;
}

static void say(const char *word) {
  puts(word);
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc != 7) return fprintf(stderr, "usage: streams PORT COUNT RATE WARM_S MEASURE_S PATH\n"), 2;
  is_translated = !strncmp(argv[6], "/api/", 5);
  signal(SIGPIPE, SIG_IGN);
  int port = atoi(argv[1]), count = atoi(argv[2]), rate = atoi(argv[3]), opened = 0;
  double warm_s = atof(argv[4]), measure_s = atof(argv[5]);
  Stream *all = calloc(count, sizeof *all);
  int poll_fd = epoll_create1(EPOLL_CLOEXEC);
  long long start = now_ns(), from = 0, until = 0, now;
  struct epoll_event ready[256];
  while ((now = now_ns()) < until || !is_measuring) {
    for (; opened < count && start + opened * PACE_NS <= now; opened++) open_stream(&all[opened], poll_fd, port, rate, argv[6]);
    int is_complete = begun == count || refused + garbled + cut || now > start + PATIENCE_NS;
    if (opened == count && is_complete && !from) from = now + warm_s * 1e9;
    if (from && !is_measuring && now >= from) {
      is_measuring = 1;
      until = now + measure_s * 1e9;
      say("START");
    }
    int n = epoll_wait(poll_fd, ready, 256, opened < count ? 1 : 10);
    for (int i = 0; i < n; i++) serve(ready[i].data.ptr);
  }
  say("END");
  usleep(100000); /* the streams stay open while the parent reads CPU and memory */
  long starved = 0;
  for (int i = 0; i < count; i++) starved += !all[i].measured;
  printf("{\"events\":%ld,\"p50\":%d,\"p99\":%d,\"refused\":%ld,\"garbled\":%ld,\"disordered\":%ld,\"cut\":%ld,\"starved\":%ld}\n",
         events, percentile(.5), percentile(.99), refused, garbled, disordered, cut, starved);
}

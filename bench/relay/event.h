/* One streamed event, as upstream.c writes it and streams.c reads it: number and time are at fixed offsets.
   It has the size of an ordinary chat chunk. */
#define EVENT_FORMAT                                                                                            \
  "data: {\"n\":%10u,\"t\":%19lld,\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\"," \
  "\"created\":1700000000,\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},"     \
  "\"finish_reason\":null}]}\n\n"
#define EVENT_START "data: {\"n\":"
#define LINE_START "{\"model\":\"bench\",\"created_at\":\""
#define LINE_END "\"message\":{\"role\":\"assistant\",\"content\":\" token\"},\"done\":false}"
#define NUMBER_AT 11
#define STAMP_AT 26
#define RATE_FIELD "x-chunks-per-second:"

#include <time.h>

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

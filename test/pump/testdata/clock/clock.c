/* The wall clock, moved: to be preloaded into a server. The file that CLOCK_OFFSET names holds by how many seconds, as one
 * 64-bit number; the monotonic clock goes on as it is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void init(void) {
    const char *path = getenv("CLOCK_OFFSET");
    int fd = path ? open(path, O_RDONLY) : -1;
    if (fd < 0) return;
    void *p = mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED) offset = p;
    close(fd);
}

static int64_t moved_by(void) { return offset ? *offset : 0; }

int clock_gettime(clockid_t which, struct timespec *t) {
    int failed = (int)syscall(SYS_clock_gettime, which, t);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) t->tv_sec += moved_by();
    return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}

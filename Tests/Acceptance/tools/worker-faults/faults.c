// Injects two faults into a worker into which it is preloaded (LD_PRELOAD): a wall clock that is wrong, and an OpenSSL
// that cannot sign. The file that WORKER_FAULTS names has two numbers: the seconds to add to CLOCK_REALTIME, and 1 if
// signing fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void read_faults(long *seconds, int *signing_fails) {
    *seconds = 0;
    *signing_fails = 0;
    const char *path = getenv("WORKER_FAULTS");
    int descriptor = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0) return;
    char text[64];
    ssize_t count = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    if (count <= 0) return;
    text[count] = 0;
    sscanf(text, "%ld %d", seconds, signing_fails);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME) {
        long seconds;
        int signing_fails;
        read_faults(&seconds, &signing_fails);
        time->tv_sec += seconds;
    }
    return result;
}

int EVP_DigestSign(void *context, unsigned char *signature, size_t *signature_bytes, const unsigned char *data, size_t data_bytes) {
    long seconds;
    int signing_fails;
    read_faults(&seconds, &signing_fails);
    if (signing_fails) return 0;
    int (*sign)(void *, unsigned char *, size_t *, const unsigned char *, size_t) = dlsym(RTLD_NEXT, "EVP_DigestSign");
    return sign ? sign(context, signature, signature_bytes, data, data_bytes) : 0;
}

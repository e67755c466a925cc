#include "CTimerDescriptor.h"

#include <sys/timerfd.h>

int CTimerDescriptor_make(void) {
    return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
}

int CTimerDescriptor_set(int descriptor, int64_t dueNanoseconds) {
    /* An absolute time of 0 would disarm the timer. */
    int64_t due = dueNanoseconds > 0 ? dueNanoseconds : 1;
    struct itimerspec setting = {.it_value = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000}};
    return timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &setting, 0);
}

#ifndef C_TIMER_DESCRIPTOR_H
#define C_TIMER_DESCRIPTOR_H

#include <stdint.h>

/* A timer descriptor by CLOCK_MONOTONIC. It becomes readable when the timer is due. Both functions return -1 and set errno if they fail. */
int CTimerDescriptor_make(void);

/* Sets the time when the timer is due. A time in the past is due at once. */
int CTimerDescriptor_set(int descriptor, int64_t dueNanoseconds);

#endif

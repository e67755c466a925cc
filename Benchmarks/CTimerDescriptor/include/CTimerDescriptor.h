#ifndef C_TIMER_DESCRIPTOR_H
#define C_TIMER_DESCRIPTOR_H

#include <stdint.h>

/* A timer that a loop can wait for, by CLOCK_MONOTONIC: becomes readable when its time has come. Both give -1 and errno if they fail. */
int CTimerDescriptor_make(void);

/* When it is due; what has passed is due at once. */
int CTimerDescriptor_set(int descriptor, int64_t dueNanoseconds);

#endif

#ifndef C_ALLOCATION_COUNT_H
#define C_ALLOCATION_COUNT_H

#include <stdint.h>

/// The calls of malloc, calloc, realloc, aligned_alloc and posix_memalign since the process started.
uint64_t CAllocationCount_total(void);

#endif

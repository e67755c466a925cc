#ifndef C_ALLOCATION_COUNT_H
#define C_ALLOCATION_COUNT_H

#include <stdint.h>

/// Returns the number of calls of malloc, calloc, realloc, aligned_alloc and posix_memalign since the start.
uint64_t CAllocationCount_total(void);

#endif

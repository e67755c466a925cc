/* The limits of glibc's allocator. */
#include <malloc.h>

/* Sets the size from which blocks are mapped one by one, and the most unused memory at the top of a heap. Both sizes then stay as
 * they are. With another C library this does nothing. */
static inline void CAllocator_setLimits(int mappedBlockBytesMin, int unusedTopBytesMax) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, mappedBlockBytesMin);
    mallopt(M_TRIM_THRESHOLD, unusedTopBytesMax);
#endif
}

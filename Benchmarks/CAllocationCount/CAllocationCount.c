// Counts the calls of glibc's allocation functions. The linker prefers these definitions to those of glibc.
#include "CAllocationCount.h"

#include <errno.h>
#include <stddef.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static uint64_t total;

uint64_t CAllocationCount_total(void) { return __atomic_load_n(&total, __ATOMIC_RELAXED); }

static void count_one(void) { __atomic_fetch_add(&total, 1, __ATOMIC_RELAXED); }

void *malloc(size_t size) {
    count_one();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    count_one();
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    count_one();
    return __libc_realloc(block, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count_one();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    count_one();
    *block = __libc_memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

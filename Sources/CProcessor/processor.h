/* Processor instructions that Swift cannot express. */

/* Begins to load the cache line of an address, without waiting for it. Any address is allowed, also an invalid one. */
static inline __attribute__((always_inline)) void CProcessor_prefetch(const void *address) { __builtin_prefetch(address); }

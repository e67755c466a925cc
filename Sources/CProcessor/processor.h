/* Processor instructions that Swift cannot express. */

/* Starts to load the cache line of an address, and does not wait. Any address is allowed, also an invalid one. */
static inline __attribute__((always_inline)) void CProcessor_prefetch(const void *address) { __builtin_prefetch(address); }

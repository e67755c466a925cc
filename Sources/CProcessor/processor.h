/* What processors can do and Swift has no word for. */

/* Fetches the line of memory that holds the address, and waits for nothing. Any address will do. */
static inline __attribute__((always_inline)) void CProcessor_prefetch(const void *address) { __builtin_prefetch(address); }

#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/*
 * Linux functions that Swift's Glibc module lacks. Their headers are not included, because otherwise this module and
 * the Glibc module would define the same types. So the declarations use basic C types instead of the headers' types.
 */
int CLinux_accept4(int descriptor, void *address, uint32_t *length, int flags) __asm__("accept4");
int CLinux_posix_spawn_file_actions_addclosefrom_np(void *actions, int from) __asm__("posix_spawn_file_actions_addclosefrom_np");
int CLinux_pthread_setname_np(unsigned long thread, const char *name) __asm__("pthread_setname_np");

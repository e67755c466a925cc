#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/*
 * What Linux has beyond POSIX and the Glibc module leaves out. Functions whose headers belong to the Glibc module are declared
 * here with the types that those headers spell: including the headers again would make two modules claim the same types.
 */
int CLinux_accept4(int descriptor, void *address, uint32_t *length, int flags) __asm__("accept4");
int CLinux_posix_spawn_file_actions_addclosefrom_np(void *actions, int from) __asm__("posix_spawn_file_actions_addclosefrom_np");
int CLinux_pthread_setname_np(unsigned long thread, const char *name) __asm__("pthread_setname_np");

import Glibc

/// Dumps of this process's memory after a crash. They would contain the signing keys, passwords and device tokens.
enum CoreDumps {
    /// Tells the kernel to write no dump when this process crashes.
    ///
    /// The limit is 1 byte, because 0 does not prevent a dump to a program, such as systemd-coredump or apport (see
    /// core(5)). The kernel runs no such program for a limit of exactly 1, and writes no file of less than a page. Only
    /// the soft limit changes, so an operator can permit a dump with prlimit(1).
    ///
    /// The process stays dumpable in the sense of prctl(2). Otherwise only root could read its files in `/proc`, and
    /// `causeway health` would not find the worker in its container (``WorkerProcess``). Other processes of this user
    /// can read the key files anyway.
    static func prevent() {
        let resource = __rlimit_resource_t(RLIMIT_CORE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return }
        // If the hard limit is 0, an unprivileged process cannot raise it, and the kernel writes no file anyway.
        limit.rlim_cur = min(1, limit.rlim_max)
        _ = setrlimit(resource, &limit)
    }
}

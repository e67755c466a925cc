import Foundation

/// Measures the CPU time of processes more exactly than ``ProcessUsage``, which counts ticks. Can also reset the peak
/// memory that ``ProcessUsage`` reads.
enum ProcessCPUTime {
    /// Returns the CPU time of the process's living threads, in microseconds. Returns nil if the process no longer
    /// exists.
    static func cpuMicroseconds(of processIdentifier: pid_t) -> Int64? {
        guard let threads = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(processIdentifier)/task"),
            !threads.isEmpty
        else { return nil }
        // A thread may end after it was listed, so a missing file counts as 0.
        let sum = threads.reduce(Int64(0)) { sum, thread in
            let text = try? TextFile.read("/proc/\(processIdentifier)/task/\(thread)/schedstat")
            return sum + (text.flatMap { cpuNanoseconds(schedstat: String(decoding: $0, as: UTF8.self)) } ?? 0)
        }
        if sum > 0 { return sum / 1_000 }
        // Some kernels have no `schedstat`. Use the time in ticks, which is less exact.
        return ProcessUsage(processIdentifier: processIdentifier).map { $0.cpuMilliseconds * 1_000 }
    }

    /// Returns the time that a thread has run on a CPU: the first of the three numbers in its `schedstat`.
    static func cpuNanoseconds(schedstat: String) -> Int64? {
        schedstat.split(separator: " ").first.flatMap { Int64($0) }
    }

    /// The CPU time of this process's children that have ended and were waited for, in microseconds.
    static var endedChildrenCPUMicroseconds: Int64 {
        var usage = rusage()
        getrusage(RUSAGE_CHILDREN.rawValue, &usage)
        let seconds = Int64(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
        return seconds * 1_000_000 + Int64(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)
    }

    /// Resets the peak of a process's resident memory to its current value (`5` in `clear_refs`, proc(5)). A fan-out
    /// run does this before its command, so that the figures leave out the memory of the members' joining.
    static func resetPeakMemory(of processIdentifier: pid_t) throws(LabError) {
        let path = "/proc/\(processIdentifier)/clear_refs"
        let descriptor = open(path, O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw LabError(path, errno: errno) }
        defer { close(descriptor) }
        guard write(descriptor, "5", 1) == 1 else { throw LabError(path, errno: errno) }
    }
}

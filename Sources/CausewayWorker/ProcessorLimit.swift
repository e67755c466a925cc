import Glibc

/// How many processors this process may keep busy: those of its CPU affinity, or fewer if its control group has a
/// quota.
struct ProcessorLimit {
    var controlGroups = ControlGroups()
    /// The kernel's file that says which processors the process may use.
    var statusFile = "/proc/self/status"

    /// The number of processors, at least 1. A quota is rounded up: one and a half processors count as 2, because one
    /// lane alone would leave half a processor idle.
    var processorCount: Int {
        let affinityCount = affinityProcessorCount ?? Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        return max(1, min(affinityCount, quotaProcessorCount ?? .max))
    }

    /// The number of processors in the process's affinity, counted as bits of a hexadecimal mask; nil if the kernel
    /// does not report it.
    private var affinityProcessorCount: Int? {
        let name = "Cpus_allowed:"
        guard let line = ControlGroups.readText(statusFile)?.split(separator: "\n").first(where: { $0.hasPrefix(name) })
        else {
            return nil
        }
        let count = line.dropFirst(name.count).reduce(0) { $0 + ($1.hexDigitValue?.nonzeroBitCount ?? 0) }
        return count > 0 ? count : nil
    }

    /// The smallest quota of the process's control group and its enclosing groups, in processors, rounded up. Nil if
    /// none has a quota, or if the control groups are of version 1.
    private var quotaProcessorCount: Int? {
        controlGroups.readVersion2Files("cpu.max").compactMap(Self.parseQuotaProcessorCount).min()
    }

    /// Returns the quota that a text of `cpu.max` gives, in processors, rounded up. For example, `150000 100000`
    /// (150,000 µs of processor time in each 100,000 µs) gives 2. Nil if the text begins with `max`, which means that
    /// there is no quota, or if it cannot be read.
    private static func parseQuotaProcessorCount(_ text: String) -> Int? {
        let words = text.split(whereSeparator: \.isWhitespace)
        guard words.count == 2, let timeMicroseconds = Int64(words[0]), let periodMicroseconds = Int64(words[1]),
            timeMicroseconds > 0, periodMicroseconds > 0
        else {
            return nil
        }
        return Int(
            clamping: timeMicroseconds / periodMicroseconds + (timeMicroseconds % periodMicroseconds > 0 ? 1 : 0)
        )
    }
}

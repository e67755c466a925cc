import Glibc

/// How many processors this process may keep busy: those that it may run on, or fewer where its control group has a quota of their time.
struct ProcessorShare {
    var groups = ControlGroups()
    /// What the kernel says of the process.
    var status = "/proc/self/status"

    /// At least 1. A quota of one and a half processors is two: a lane that shares one is better than a processor left idle.
    var processors: Int {
        let affinity = affinityProcessors ?? Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        return max(1, min(affinity, quotaProcessors ?? .max))
    }

    /// The processors of the process's affinity: the set bits of a mask in hexadecimal. Nil where the kernel does not say.
    private var affinityProcessors: Int? {
        let name = "Cpus_allowed:"
        guard let line = ControlGroups.text(status)?.split(separator: "\n").first(where: { $0.hasPrefix(name) }) else {
            return nil
        }
        let count = line.dropFirst(name.count).reduce(0) { $0 + ($1.hexDigitValue?.nonzeroBitCount ?? 0) }
        return count > 0 ? count : nil
    }

    /// The smallest quota of the process's group and of those that it lies in; nil: none of them has one, or this is version 1.
    private var quotaProcessors: Int? { groups.unifiedTexts("cpu.max").compactMap(Self.quota).min() }

    /// `cpu.max`: microseconds of processor time, or `max`, and the period that they are for. Rounded up.
    private static func quota(_ text: String) -> Int? {
        let words = text.split(whereSeparator: \.isWhitespace)
        guard words.count == 2, let time = Int64(words[0]), let period = Int64(words[1]), time > 0, period > 0 else {
            return nil
        }
        return Int(clamping: time / period + (time % period > 0 ? 1 : 0))
    }
}

import CausewayConfiguration
import Glibc

/// How many processors this process may keep busy: those that it may run on, or fewer where its control group has a quota of their time.
struct ProcessorShare {
    /// Where version 2 of the control groups is mounted.
    var controlGroups = "/sys/fs/cgroup"
    /// The process's place in them.
    var membership = "/proc/self/cgroup"
    /// What the kernel says of the process.
    var status = "/proc/self/status"

    /// The longest file that is read here.
    private static let fileBytesMax = 65_536
    /// Groups in groups: more than any system has.
    private static let depthMax = 64

    /// At least 1. A quota of one and a half processors is two: a lane that shares one is better than a processor left idle.
    var processors: Int {
        let affinity = affinityProcessors ?? Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        return max(1, min(affinity, quotaProcessors ?? .max))
    }

    /// The processors of the process's affinity: the set bits of a mask in hexadecimal. Nil where the kernel does not say.
    private var affinityProcessors: Int? {
        let name = "Cpus_allowed:"
        guard let line = text(status)?.split(separator: "\n").first(where: { $0.hasPrefix(name) }) else { return nil }
        let count = line.dropFirst(name.count).reduce(0) { $0 + ($1.hexDigitValue?.nonzeroBitCount ?? 0) }
        return count > 0 ? count : nil
    }

    /// The smallest quota of the process's group and of those that it lies in; nil: none of them has one, or this is version 1.
    private var quotaProcessors: Int? {
        guard let line = text(membership)?.split(separator: "\n").first(where: { $0.hasPrefix("0::/") }) else {
            return nil
        }
        var path = line.dropFirst("0::/".count)
        var smallest: Int?
        for _ in 0..<Self.depthMax {
            let file = [controlGroups, String(path), "cpu.max"].filter { !$0.isEmpty }.joined(separator: "/")
            if let quota = text(file).flatMap(Self.quota) { smallest = min(smallest ?? quota, quota) }
            guard !path.isEmpty else { break }
            path = path.lastIndex(of: "/").map { path[..<$0] } ?? ""
        }
        return smallest
    }

    /// `cpu.max`: microseconds of processor time, or `max`, and the period that they are for. Rounded up.
    private static func quota(_ text: String) -> Int? {
        let words = text.split(whereSeparator: \.isWhitespace)
        guard words.count == 2, let time = Int64(words[0]), let period = Int64(words[1]), time > 0, period > 0 else {
            return nil
        }
        return Int(clamping: time / period + (time % period > 0 ? 1 : 0))
    }

    private func text(_ path: String) -> String? {
        try? ConfigurationFile.text(path: path, bytesMax: Self.fileBytesMax)
    }
}

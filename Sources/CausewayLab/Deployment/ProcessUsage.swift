import Glibc

/// The CPU time and memory that a process has used so far, from `/proc`.
struct ProcessUsage: Equatable, Codable {
    /// The user and system time of all threads, including threads that have ended.
    var cpuMilliseconds: Int64
    var residentPeakBytes: Int64

    static let none = ProcessUsage(cpuMilliseconds: 0, residentPeakBytes: 0)

    private init(cpuMilliseconds: Int64, residentPeakBytes: Int64) {
        self.cpuMilliseconds = cpuMilliseconds
        self.residentPeakBytes = residentPeakBytes
    }

    /// Returns the usage of two processes that ran one after the other: the sum of their CPU times, and the higher
    /// peak.
    func adding(_ other: ProcessUsage) -> ProcessUsage {
        ProcessUsage(
            cpuMilliseconds: cpuMilliseconds + other.cpuMilliseconds,
            residentPeakBytes: max(residentPeakBytes, other.residentPeakBytes)
        )
    }

    /// Returns the average CPU time of a push or command if the process has handled `count` of them; 0 if `count` is 0.
    func cpuMicroseconds(per count: Int) -> Double { count > 0 ? Double(cpuMilliseconds) * 1_000 / Double(count) : 0 }

    /// Reads the usage of a process. Returns nil if the process no longer exists.
    init?(processIdentifier: pid_t) {
        guard let stat = try? TextFile.read("/proc/\(processIdentifier)/stat"),
            let status = try? TextFile.read("/proc/\(processIdentifier)/status")
        else { return nil }
        self.init(
            stat: String(decoding: stat, as: UTF8.self),
            status: String(decoding: status, as: UTF8.self),
            ticksPerSecond: Int64(sysconf(Int32(_SC_CLK_TCK)))
        )
    }

    /// Reads the usage from the texts of `/proc/PID/stat` and `/proc/PID/status`; see proc(5).
    init?(stat: String, status: String, ticksPerSecond: Int64) {
        // The name in parentheses may contain anything, even parentheses. After the last parenthesis there are only
        // simple fields.
        guard let afterName = stat.lastIndex(of: ")"), ticksPerSecond > 0 else { return nil }
        let fields = stat[stat.index(after: afterName)...].split(separator: " ")
        // Fields 14 and 15, utime and stime. The first field after the name is field 3.
        guard fields.count > 12, let user = Int64(fields[11]), let system = Int64(fields[12]) else { return nil }
        cpuMilliseconds = (user + system) * 1_000 / ticksPerSecond
        residentPeakBytes = Self.parseBytes("VmHWM:", of: status) ?? 0
    }

    /// Returns the current resident memory of a process; nil if the process no longer exists.
    static func residentBytes(of processIdentifier: pid_t) -> Int64? {
        guard let status = try? TextFile.read("/proc/\(processIdentifier)/status") else { return nil }
        return parseBytes("VmRSS:", of: String(decoding: status, as: UTF8.self))
    }

    /// Returns the bytes of one line of `/proc/PID/status`, which counts in KiB.
    private static func parseBytes(_ name: String, of status: String) -> Int64? {
        let line = status.split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int64($0) }.map { $0 << 10 }
    }
}

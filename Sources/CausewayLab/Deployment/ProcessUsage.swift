import Glibc

/// The cost of a process so far, from `/proc`.
struct ProcessUsage: Equatable, Codable {
    /// User and system time of all threads, including ended ones.
    var cpuMilliseconds: Int64
    /// The peak of resident memory.
    var residentPeakBytes: Int64

    static let none = ProcessUsage(cpuMilliseconds: 0, residentPeakBytes: 0)

    private init(cpuMilliseconds: Int64, residentPeakBytes: Int64) {
        self.cpuMilliseconds = cpuMilliseconds
        self.residentPeakBytes = residentPeakBytes
    }

    /// The sum for two processes that ran one after the other.
    func plus(_ other: ProcessUsage) -> ProcessUsage {
        ProcessUsage(
            cpuMilliseconds: cpuMilliseconds + other.cpuMilliseconds,
            residentPeakBytes: max(residentPeakBytes, other.residentPeakBytes)
        )
    }

    /// CPU time divided by `count`; 0 if `count` is 0.
    func microseconds(for count: Int) -> Double { count > 0 ? Double(cpuMilliseconds) * 1_000 / Double(count) : 0 }

    /// Nil if the process does not exist any more.
    init?(identifier: pid_t) {
        guard let stat = try? TextFile.read("/proc/\(identifier)/stat"),
            let status = try? TextFile.read("/proc/\(identifier)/status")
        else { return nil }
        self.init(
            stat: String(decoding: stat, as: UTF8.self),
            status: String(decoding: status, as: UTF8.self),
            ticksPerSecond: Int64(sysconf(Int32(_SC_CLK_TCK)))
        )
    }

    /// Reads the text of the two files; see proc(5).
    init?(stat: String, status: String, ticksPerSecond: Int64) {
        // The name in parentheses may contain anything, even parentheses. Behind the last one there are only numbers.
        guard let afterName = stat.lastIndex(of: ")"), ticksPerSecond > 0 else { return nil }
        let fields = stat[stat.index(after: afterName)...].split(separator: " ")
        // Fields 14 and 15, utime and stime. The first field after the name is field 3.
        guard fields.count > 12, let user = Int64(fields[11]), let system = Int64(fields[12]) else { return nil }
        cpuMilliseconds = (user + system) * 1_000 / ticksPerSecond
        residentPeakBytes = Self.bytes("VmHWM:", of: status) ?? 0
    }

    /// The present resident memory of a process; nil if the process does not exist any more.
    static func residentBytes(of identifier: pid_t) -> Int64? {
        guard let status = try? TextFile.read("/proc/\(identifier)/status") else { return nil }
        return bytes("VmRSS:", of: String(decoding: status, as: UTF8.self))
    }

    /// Reads a line of `/proc/PID/status`, which has KiB.
    private static func bytes(_ name: String, of status: String) -> Int64? {
        let line = status.split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int64($0) }.map { $0 << 10 }
    }
}

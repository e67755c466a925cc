import Glibc

/// What a process has cost so far, from `/proc`.
struct ProcessUsage: Equatable, Codable {
    /// User and system time of all threads, living and gone.
    var cpuMilliseconds: Int64
    /// The most memory that was ever resident.
    var residentPeakBytes: Int64

    static let none = ProcessUsage(cpuMilliseconds: 0, residentPeakBytes: 0)

    private init(cpuMilliseconds: Int64, residentPeakBytes: Int64) {
        self.cpuMilliseconds = cpuMilliseconds
        self.residentPeakBytes = residentPeakBytes
    }

    /// Of two processes, one after the other.
    func plus(_ other: ProcessUsage) -> ProcessUsage {
        ProcessUsage(
            cpuMilliseconds: cpuMilliseconds + other.cpuMilliseconds,
            residentPeakBytes: max(residentPeakBytes, other.residentPeakBytes)
        )
    }

    /// CPU time for each of so many; 0 of none.
    func microseconds(for count: Int) -> Double { count > 0 ? Double(cpuMilliseconds) * 1_000 / Double(count) : 0 }

    /// Nil if there is no such process any more.
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

    /// From the text of the two files; see proc(5).
    init?(stat: String, status: String, ticksPerSecond: Int64) {
        // The name in parentheses may hold anything, even parentheses; what follows the last one are numbers.
        guard let afterName = stat.lastIndex(of: ")"), ticksPerSecond > 0 else { return nil }
        let fields = stat[stat.index(after: afterName)...].split(separator: " ")
        // Fields 14 and 15, utime and stime; the first after the name is field 3.
        guard fields.count > 12, let user = Int64(fields[11]), let system = Int64(fields[12]) else { return nil }
        cpuMilliseconds = (user + system) * 1_000 / ticksPerSecond
        residentPeakBytes = Self.bytes("VmHWM:", of: status) ?? 0
    }

    /// What a process has resident now; nil if there is no such process any more.
    static func residentBytes(of identifier: pid_t) -> Int64? {
        guard let status = try? TextFile.read("/proc/\(identifier)/status") else { return nil }
        return bytes("VmRSS:", of: String(decoding: status, as: UTF8.self))
    }

    /// A line of `/proc/PID/status`, which has KiB.
    private static func bytes(_ name: String, of status: String) -> Int64? {
        let line = status.split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int64($0) }.map { $0 << 10 }
    }
}

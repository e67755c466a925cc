import Glibc

/// The system's figures about this process. A value is nil if the system does not give it, for example because `/proc`
/// is hidden.
struct ProcessReading: Sendable {
    var cpuMicroseconds: Int64?
    var residentBytes: Int64?
    var virtualBytes: Int64?
    var openDescriptorCount: Int64?
    var openDescriptorsMax: Int64?
    /// When the process started, UNIX milliseconds.
    var startedAtWallMilliseconds: Int64?

    subscript(_ metric: Metric) -> Int64? {
        switch metric {
        case .processCpu: cpuMicroseconds
        case .processResidentMemoryBytes: residentBytes
        case .processVirtualMemoryBytes: virtualBytes
        case .processOpenFds: openDescriptorCount
        case .processMaxFds: openDescriptorsMax
        case .processStartTime: startedAtWallMilliseconds
        default: nil
        }
    }

    /// Reads the values now, with a few system calls. The start time is read only once.
    static func now() -> ProcessReading {
        var reading = ProcessReading()
        var time = timespec()
        if clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0 {
            reading.cpuMicroseconds = Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
        }
        let pageBytes = Int64(sysconf(Int32(_SC_PAGESIZE)))
        let pageCounts = readText(path: "/proc/self/statm").split(separator: " ").prefix(2).compactMap { Int64($0) }
        if pageCounts.count == 2 {
            reading.virtualBytes = pageCounts[0] * pageBytes
            reading.residentBytes = pageCounts[1] * pageBytes
        }
        reading.openDescriptorCount = countOpenDescriptors()
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            reading.openDescriptorsMax = Int64(clamping: limit.rlim_cur)
        }
        reading.startedAtWallMilliseconds = startedAtWallMilliseconds
        return reading
    }

    /// When this process started. Field 22 of `/proc/self/stat` (proc(5)) has the ticks since the system's start, so
    /// the time of the system's start is added.
    private static let startedAtWallMilliseconds: Int64? = {
        let processStat = readText(path: "/proc/self/stat")
        // The second field, the program's name, may contain any characters. So read the fields after its last
        // parenthesis.
        guard let nameEnd = processStat.lastIndex(of: ")") else { return nil }
        let fields = processStat[nameEnd...].split(separator: " ")
        let ticksPerSecond = Int64(sysconf(Int32(_SC_CLK_TCK)))
        let bootLine = readText(path: "/proc/stat").split(separator: "\n").first { $0.hasPrefix("btime ") }
        guard fields.count > 20, let ticks = Int64(fields[20]), ticksPerSecond > 0,
            let bootLine, let bootedAtSeconds = Int64(bootLine.dropFirst("btime ".count))
        else { return nil }
        return bootedAtSeconds * 1_000 + ticks * 1_000 / ticksPerSecond
    }()

    /// Returns the content of a file; empty if the file cannot be read. A file that is longer than `bytesMax` bytes is
    /// cut. Reads several times, because a file below `/proc` may come in pieces.
    private static func readText(path: String) -> String {
        let bytesMax = 1 << 20
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4_096)
        while bytes.count < bytesMax {
            let count = read(descriptor, &part, part.count)
            guard count > 0 else { break }
            bytes += part[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the number of open descriptors, without the one that this function itself opens. Nil if `/proc` cannot
    /// be read.
    private static func countOpenDescriptors() -> Int64? {
        guard let directory = opendir("/proc/self/fd") else { return nil }
        defer { closedir(directory) }
        var count: Int64 = 0
        while let entry = readdir(directory) {
            if entry.pointee.d_name.0 != CChar(UInt8(ascii: ".")) { count += 1 }
        }
        return count - 1
    }
}

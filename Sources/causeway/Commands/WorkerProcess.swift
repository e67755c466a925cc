import CausewayConfiguration
import Foundation
import Glibc

/// A worker process on this machine, as the kernel shows it (proc(5)).
struct WorkerProcess: Equatable {
    /// The maximum number of entries that are read from a directory: of processes, or of a process's descriptors.
    private static let entriesMax = 65_536
    private static let textBytesMax = 16 << 20

    let identifier: Int32

    /// Returns the worker processes, by ascending process id: those that run the command `worker` of the same program
    /// file as this process, and whose files in `/proc` this user may read.
    static func findRunning() -> [WorkerProcess] {
        guard let ownExecutable = linkDestination("/proc/self/exe") else { return [] }
        return entries(of: "/proc").compactMap { Int32($0) }.sorted().map(WorkerProcess.init)
            .filter {
                linkDestination("/proc/\($0.identifier)/exe") == ownExecutable
                    && $0.arguments.dropFirst().first == "worker"
            }
    }

    private var arguments: [String] {
        (Self.fileText("/proc/\(identifier)/cmdline") ?? "").split(separator: "\0").map(String.init)
    }

    /// The address of the worker's only listening socket, as this machine can reach it. Nil if the worker does not
    /// listen, or if its files in `/proc` cannot be read.
    var listeningAddress: (host: String, port: UInt16)? {
        let directory = "/proc/\(identifier)/fd"
        let socketInodes = Set(
            Self.entries(of: directory).compactMap { Self.linkDestination("\(directory)/\($0)") }
                .compactMap { $0.wholeMatch(of: /socket:\[([0-9]+)\]/).map { String($0.1) } }
        )
        guard !socketInodes.isEmpty else { return nil }
        for table in ["tcp", "tcp6"] {
            let lines = (Self.fileText("/proc/\(identifier)/net/\(table)") ?? "").split(separator: "\n")
            for line in lines.dropFirst() {
                let fields = line.split(separator: " ")
                // The fields are: sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode. State 0A is
                // TCP_LISTEN.
                guard fields.count > 9, fields[3] == "0A", socketInodes.contains(String(fields[9])),
                    let address = Self.parseKernelAddress(fields[1])
                else { continue }
                return (Self.reachableHost(address.host), address.port)
            }
        }
        return nil
    }

    /// Returns the address at which this machine reaches a worker: loopback if the worker listens on all interfaces,
    /// otherwise the address itself.
    static func reachableHost(_ host: String) -> String { ["0.0.0.0": "127.0.0.1", "::": "::1"][host] ?? host }

    /// Reads an address as the kernel writes it, for example `0100007F:2508`. Both parts are hexadecimal: the IP
    /// address in 32-bit words of the machine's byte order, and the port. Returns nil if the text has another form.
    static func parseKernelAddress(_ text: Substring) -> (host: String, port: UInt16)? {
        let parts = text.split(separator: ":")
        guard parts.count == 2, let port = UInt16(parts[1], radix: 16), [8, 32].contains(parts[0].count) else {
            return nil
        }
        let digits = Array(parts[0])
        var words: [UInt32] = []
        for start in stride(from: 0, to: digits.count, by: 8) {
            guard let word = UInt32(String(digits[start..<start + 8]), radix: 16) else { return nil }
            words.append(word)
        }
        var host = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = words.count == 1 ? AF_INET : AF_INET6
        guard inet_ntop(family, words, &host, socklen_t(host.count)) != nil else { return nil }
        return (String(decoding: host.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self), port)
    }

    private static func entries(of directory: String) -> [String] {
        Array(((try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []).prefix(entriesMax))
    }

    /// Reads a file of `/proc` to its end, because the kernel reports the size 0 for such a file.
    private static func fileText(_ path: String) -> String? {
        try? ConfigurationFile.readText(path: path, bytesMax: textBytesMax)
    }

    private static func linkDestination(_ path: String) -> String? {
        try? FileManager.default.destinationOfSymbolicLink(atPath: path)
    }
}

import Glibc

/// A worker that this program has not started. Its start time distinguishes the worker from a later process with the
/// same id.
struct ExternalWorker: Equatable, Sendable {
    static let programName = "causeway"

    let identifier: pid_t
    private let startedAtTicks: UInt64

    /// - Throws: an error if there is no such worker, or if this program is not allowed to signal it.
    init(identifier: pid_t) throws(LabError) {
        guard identifier > 1, let (name, ticks) = Self.readStatus(of: identifier) else {
            throw LabError("there is no process \(identifier)")
        }
        guard name == Self.programName else {
            throw LabError("process \(identifier) is \(name), not \(Self.programName)")
        }
        guard Glibc.kill(identifier, 0) == 0 else { throw LabError("process \(identifier)", errno: errno) }
        self.identifier = identifier
        startedAtTicks = ticks
    }

    var isRunning: Bool { Self.readStatus(of: identifier)?.startedAtTicks == startedAtTicks }

    func kill() {
        guard isRunning else { return }
        _ = Glibc.kill(identifier, SIGKILL)
    }

    /// Returns the name and the start time of a process. Returns nil if the process is a zombie or does not exist.
    private static func readStatus(of identifier: pid_t) -> (name: String, startedAtTicks: UInt64)? {
        guard let bytes = try? TextFile.read("/proc/\(identifier)/stat") else { return nil }
        // The name is in parentheses and may contain spaces. The first field after the name is the state, and the 20th
        // is the start time.
        let text = String(decoding: bytes, as: UTF8.self)
        guard let begin = text.firstIndex(of: "("), let end = text.lastIndex(of: ")"), begin < end else { return nil }
        let fields = text[text.index(after: end)...].split(separator: " ")
        guard fields.count > 19, fields[0] != "Z", let ticks = UInt64(fields[19]) else { return nil }
        return (String(text[text.index(after: begin)..<end]), ticks)
    }
}

/// How to find a worker's process: by its id, or by a file that contains the id. With a file, the page also finds a
/// worker that starts later, if the new id is written to the file.
enum WorkerLocator: Equatable, Sendable {
    case identifier(pid_t)
    case file(String)

    init(_ text: String) {
        self = pid_t(text).map { .identifier($0) } ?? .file(text)
    }

    /// Returns the worker that runs now.
    func findWorker() throws(LabError) -> ExternalWorker {
        switch self {
        case .identifier(let identifier): return try ExternalWorker(identifier: identifier)
        case .file(let path):
            let words = String(decoding: try TextFile.read(path), as: UTF8.self).split(whereSeparator: \.isWhitespace)
            guard let identifier = words.first.flatMap({ pid_t($0) }) else {
                throw LabError("\(path) has no process id")
            }
            return try ExternalWorker(identifier: identifier)
        }
    }
}

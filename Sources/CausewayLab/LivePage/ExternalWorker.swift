import Glibc

/// A worker that this program has not started. Its start time distinguishes the worker from a later process with the
/// same id.
struct ExternalWorker: Equatable, Sendable {
    static let programName = "causeway"

    let processIdentifier: pid_t
    private let startedAtTicks: UInt64

    /// - Throws: an error if there is no such worker, or if this program is not allowed to signal it.
    init(processIdentifier: pid_t) throws(LabError) {
        guard processIdentifier > 1, let (name, ticks) = Self.readStatus(of: processIdentifier) else {
            throw LabError("there is no process \(processIdentifier)")
        }
        guard name == Self.programName else {
            throw LabError("process \(processIdentifier) is \(name), not \(Self.programName)")
        }
        guard Glibc.kill(processIdentifier, 0) == 0 else {
            throw LabError("process \(processIdentifier)", errno: errno)
        }
        self.processIdentifier = processIdentifier
        startedAtTicks = ticks
    }

    var isRunning: Bool { Self.readStatus(of: processIdentifier)?.startedAtTicks == startedAtTicks }

    func kill() {
        guard isRunning else { return }
        _ = Glibc.kill(processIdentifier, SIGKILL)
    }

    /// Returns the name and the start time of a process. Returns nil if the process is a zombie or does not exist.
    private static func readStatus(of processIdentifier: pid_t) -> (name: String, startedAtTicks: UInt64)? {
        guard let bytes = try? TextFile.read("/proc/\(processIdentifier)/stat") else { return nil }
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
    case processIdentifier(pid_t)
    case file(String)

    init(_ text: String) {
        self = pid_t(text).map { .processIdentifier($0) } ?? .file(text)
    }

    /// Returns the worker that runs now.
    func findWorker() throws(LabError) -> ExternalWorker {
        switch self {
        case .processIdentifier(let processIdentifier): return try ExternalWorker(processIdentifier: processIdentifier)
        case .file(let path):
            let words = String(decoding: try TextFile.read(path), as: UTF8.self).split(whereSeparator: \.isWhitespace)
            guard let processIdentifier = words.first.flatMap({ pid_t($0) }) else {
                throw LabError("\(path) has no process id")
            }
            return try ExternalWorker(processIdentifier: processIdentifier)
        }
    }
}

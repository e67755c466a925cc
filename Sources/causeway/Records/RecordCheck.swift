import CausewayCommandLine
import LiveActivity

/// Checks records by the rules of the worker.
struct RecordCheck {
    enum Kind {
        case command, registration
    }

    /// The names in a configuration that records may use.
    struct Names {
        /// Bundle ids.
        var apps: Set<String>
        var policies: Set<String>
    }

    /// Nil: any name.
    var names: Names?
    private(set) var records = 0
    private(set) var faults = 0

    init(names: Names?) {
        self.names = names
    }

    /// Checks all records of a file, and reports each fault as `file:line: message`.
    mutating func check(_ file: InputFile, kind: Kind, report: (String) -> Void) throws {
        try file.forEachRecord { record in
            records += 1
            guard let (line, message) = fault(of: record, kind: kind) else { return }
            faults += 1
            report("\(file.name):\(line): \(message)")
        }
    }

    private func fault(of record: InputRecord, kind: Kind) -> (line: Int, message: String)? {
        record.bytes.withUnsafeBytes { bytes -> (Int, String)? in
            do throws(Fault) {
                let app: TextRange
                var policy: String?
                switch kind {
                case .command:
                    let command = try Command.decode(bytes)
                    try command.checkTimestamp(now: Clock.wallMilliseconds / 1_000)
                    app = command.app
                    if !command.policy.isAbsent { policy = command.policy.text(in: bytes) }
                case .registration:
                    app = try Registration.decode(bytes).app
                }
                guard let names else { return nil }
                let name = app.text(in: bytes)
                if !names.apps.contains(name) {
                    return (record.line, "app: \(name) is not in the configuration")
                }
                if let policy, !names.policies.contains(policy) {
                    return (record.line, "policy: \(policy) is not in the configuration")
                }
                return nil
            } catch {
                let before = bytes.prefix(min(max(0, error.offset), bytes.count))
                return (record.line + before.count { $0 == UInt8(ascii: "\n") }, error.message(in: bytes))
            }
        }
    }
}

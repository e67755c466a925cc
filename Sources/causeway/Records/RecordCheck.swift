import LiveActivity

/// Holds records against the rules that the worker applies to them.
struct RecordCheck {
    enum Kind {
        case command, registration
    }

    /// Bundle ids that are configured; nil: any.
    var apps: Set<String>?
    private(set) var records = 0
    private(set) var faults = 0

    init(apps: Set<String>?) {
        self.apps = apps
    }

    /// Checks all records of a file, and hands on each fault as `file:line: message`.
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
                let app =
                    switch kind {
                    case .command: try Command.decode(bytes).app
                    case .registration: try Registration.decode(bytes).app
                    }
                let name = Self.text(app, in: bytes)
                guard let apps, !apps.contains(name) else { return nil }
                return (record.line, "app: \(name) is not in the configuration")
            } catch {
                let before = bytes.prefix(min(max(0, error.offset), bytes.count))
                return (record.line + before.count { $0 == UInt8(ascii: "\n") }, error.message(in: bytes))
            }
        }
    }

    private static func text(_ range: TextRange, in record: UnsafeRawBufferPointer) -> String {
        withUnsafeTemporaryAllocation(byteCount: Int(range.range.count), alignment: 1) { target in
            let count = unescape(range, from: record, into: target)
            return String(decoding: target[..<count], as: UTF8.self)
        }
    }
}

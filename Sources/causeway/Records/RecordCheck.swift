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

    /// The most faults of one record that are looked for.
    private static let faultsMax = 32

    /// Checks all records of a file, and reports each fault as `file:line: message`.
    mutating func check(_ file: InputFile, kind: Kind, report: (String) -> Void) throws {
        try file.forEachRecord { record in
            records += 1
            let found = faults(of: record, kind: kind)
            faults += found.count
            for (line, message) in found { report("\(file.name):\(line): \(message)") }
        }
    }

    /// All faults of a record. The decoder stops at the first, so the record is repaired for the next one.
    private func faults(of record: InputRecord, kind: Kind) -> [(line: Int, message: String)] {
        var repair = RecordRepair(record.bytes)
        var found: [(line: Int, message: String)] = []
        while found.count < Self.faultsMax {
            let fault = repair.bytes.withUnsafeBytes { bytes -> Fault? in
                let named = namedFaults(bytes, kind: kind, repaired: repair.repaired)
                guard case .failure(let fault) = named else {
                    for (offset, message) in (try? named.get()) ?? [] {
                        found.append((Self.line(in: record, at: repair.originalOffset(offset)), message))
                    }
                    return nil
                }
                var original = fault
                original.offset = repair.originalOffset(fault.offset)
                found.append((Self.line(in: record, at: original.offset), original.message(in: bytes)))
                return fault
            }
            guard let fault, repair.repair(fault) else { break }
        }
        return found
    }

    private static func line(in record: InputRecord, at offset: Int) -> Int {
        record.line + record.bytes.prefix(max(0, offset)).count { $0 == UInt8(ascii: "\n") }
    }

    /// The faults of a record that can be decoded: its names and its time.
    private func namedFaults(
        _ bytes: UnsafeRawBufferPointer,
        kind: Kind,
        repaired: Set<Field>
    ) -> Result<[(offset: Int, message: String)], Fault> {
        do throws(Fault) {
            let app: TextRange
            var policy: String?
            var messages: [(offset: Int, message: String)] = []
            switch kind {
            case .command:
                let command = try Command.decode(bytes)
                do throws(Fault) {
                    try command.checkTimestamp(now: Clock.wallMilliseconds / 1_000)
                } catch {
                    messages.append((error.offset, error.message(in: bytes)))
                }
                app = command.app
                if !command.policy.isAbsent { policy = command.policy.text(in: bytes) }
            case .registration:
                app = try Registration.decode(bytes).app
            }
            guard let names else { return .success(messages) }
            let name = app.text(in: bytes)
            if !names.apps.contains(name), !repaired.contains(.app) {
                messages.append((0, "app: \(name) is not in the configuration"))
            }
            if let policy, !names.policies.contains(policy), !repaired.contains(.policy) {
                messages.append((0, "policy: \(policy) is not in the configuration"))
            }
            return .success(messages)
        } catch {
            return .failure(error)
        }
    }
}

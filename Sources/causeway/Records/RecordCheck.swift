import CausewayCommandLine
import LiveActivity

/// Checks records by the rules of the worker.
struct RecordCheck {
    enum Kind {
        case command, registration
    }

    /// The apps and policies of a configuration. Records may name no others.
    struct ConfiguredNames {
        /// The name of each app's default policy, by bundle id.
        var policyNamesByApp: [String: String]
        /// The fields that each policy drops from a body that is too large, by the policy's name.
        var droppedFieldsByPolicy: [String: OversizeFields]
    }

    /// The allowed names; nil allows any name.
    var configuredNames: ConfiguredNames?
    /// The contract of each app, by bundle id: the shapes that its phones can decode.
    var contracts: [String: ContractRule]
    private(set) var recordCount = 0
    private(set) var faultCount = 0
    /// One remark `file:line: message` for each command with a body so large that a worker would drop fields.
    private(set) var droppedFieldsRemarks: [String] = []

    /// Returns the present time. `aps.timestamp` is compared with it.
    private let wallSeconds: () -> Int64

    init(
        configuredNames: ConfiguredNames?,
        contracts: [String: ContractRule] = [:],
        wallSeconds: @escaping () -> Int64 = { Clock.wallMilliseconds / 1_000 }
    ) {
        self.configuredNames = configuredNames
        self.contracts = contracts
        self.wallSeconds = wallSeconds
    }

    /// Once a record has this many faults, the search for further ones ends, because each costs another decoding.
    private static let faultsMax = 32

    /// Checks all records of a file, and reports each fault as `file:line: message`. Also adds to
    /// ``droppedFieldsRemarks``. Throws an error if the file cannot be read.
    mutating func check(_ file: InputFile, kind: Kind, report: (String) -> Void) throws {
        try file.forEachRecord { record in
            recordCount += 1
            let foundFaults = faults(of: record, kind: kind)
            if kind == .command, foundFaults.isEmpty, let remark = droppedFieldsRemark(on: record) {
                droppedFieldsRemarks.append("\(file.name):\(record.lineNumber): \(remark)")
            }
            faultCount += foundFaults.count
            for (line, message) in foundFaults { report("\(file.name):\(line): \(message)") }
        }
    }

    /// Returns the faults of a record. A decoder stops at the first fault, so this method repairs each fault in a copy
    /// and decodes again. It stops after ``faultsMax`` faults, or at a fault that cannot be repaired. If a repair has
    /// replaced or added the event, faults that depend on the event are left out.
    func faults(of record: InputRecord, kind: Kind) -> [(line: Int, message: String)] {
        var repair = RecordRepair(record.bytes)
        var foundFaults: [(line: Int, message: String, dependsOnEvent: Bool)] = []
        while foundFaults.count < Self.faultsMax {
            let fault = repair.bytes.withUnsafeBytes { bytes -> Fault? in
                let contentCheck = faultsBeyondDecoding(bytes, kind: kind, repairedFields: repair.repairedFields)
                guard case .failure(let fault) = contentCheck else {
                    for (offset, message) in (try? contentCheck.get()) ?? [] {
                        foundFaults.append((Self.line(in: record, at: repair.originalOffset(offset)), message, false))
                    }
                    return nil
                }
                var faultInOriginal = fault
                faultInOriginal.offset = repair.originalOffset(fault.offset)
                let message = faultInOriginal.message(in: bytes)
                foundFaults.append(
                    (Self.line(in: record, at: faultInOriginal.offset), message, RecordRepair.dependsOnEvent(fault))
                )
                return fault
            }
            guard let fault, repair.repair(fault) else { break }
        }
        return foundFaults.filter { !(repair.isEventUnknown && $0.dependsOnEvent) }.map { ($0.line, $0.message) }
    }

    /// Returns a remark that names the fields that a worker drops because the command is too large. Nil if the worker
    /// drops none, or if the command stays too large.
    private func droppedFieldsRemark(on record: InputRecord) -> String? {
        record.bytes.withUnsafeBytes { bytes in
            guard let command = try? Command.decodeIgnoringBodyLimit(bytes), !command.fitsBodyLimit,
                let smallerCommand = try? dropFields(of: command, in: bytes)
            else { return nil }
            return
                """
                the request body has \(command.bodyByteCount) bytes; a worker drops \
                \(smallerCommand.droppedFieldNames) and sends \(smallerCommand.bodyByteCount)
                """
        }
    }

    /// A command that was too large, without the fields that its policy drops.
    private struct SmallerCommand {
        var bodyByteCount: Int
        var droppedFieldNames: String
        /// Why the app's phones cannot decode the state without the dropped fields. Nil if they can decode it, or if
        /// the app's contract is not known.
        var mismatch: (offset: Int, message: String)?
    }

    /// Drops the policy's fields from a command that is too large.
    ///
    /// - Throws: the command's `bodyTooLargeFault` if its policy is not configured, or drops no field. If the command
    ///   stays too large without the fields, the fault of the smaller command.
    private func dropFields(of command: Command, in bytes: UnsafeRawBufferPointer) throws(Fault)
        -> SmallerCommand
    {
        let policy =
            command.policy.isAbsent
            ? configuredNames?.policyNamesByApp[command.app.text(in: bytes)] : command.policy.text(in: bytes)
        guard let fields = policy.flatMap({ configuredNames?.droppedFieldsByPolicy[$0] }), !fields.isEmpty else {
            throw command.bodyTooLargeFault
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        defer { buffer.deallocate() }
        let dropResult = fields.drop(from: bytes, of: command, into: buffer)
        let smallerRecord = UnsafeRawBufferPointer(rebasing: buffer[..<dropResult.byteCount])
        let decodedCommand = try Command.decode(smallerRecord)
        let fieldNames = String(decoding: fields.droppedFieldNames(of: dropResult), as: UTF8.self).split(separator: ",")
        // The mismatch has an offset in the smaller command, so its line in the original record is not known. Report
        // the line on which the state begins.
        let message = contractMismatch(of: decodedCommand, in: smallerRecord)?.message
        return SmallerCommand(
            bodyByteCount: decodedCommand.bodyByteCount,
            droppedFieldNames: fieldNames.joined(separator: ", "),
            mismatch: message.map { (Int(command.contentState.offset), $0) }
        )
    }

    private static func line(in record: InputRecord, at offset: Int) -> Int {
        record.lineNumber + record.bytes.prefix(max(0, offset)).count { $0 == UInt8(ascii: "\n") }
    }

    /// Checks what a decoder does not: the names of the app and the policy, the time, and the app's contract. Returns a
    /// failure instead if the record cannot be decoded, or if its body stays too large without the policy's fields.
    private func faultsBeyondDecoding(
        _ bytes: UnsafeRawBufferPointer,
        kind: Kind,
        repairedFields: Set<Field>
    ) -> Result<[(offset: Int, message: String)], Fault> {
        do throws(Fault) {
            let app: TextRange
            var policy: String?
            var messages: [(offset: Int, message: String)] = []
            switch kind {
            case .command:
                let command = try Command.decodeIgnoringBodyLimit(bytes)
                let smallerCommand = command.fitsBodyLimit ? nil : try dropFields(of: command, in: bytes)
                do throws(Fault) {
                    try command.checkTimestamp(nowSeconds: wallSeconds())
                } catch {
                    messages.append((error.offset, error.message(in: bytes)))
                }
                app = command.app
                if !command.policy.isAbsent { policy = command.policy.text(in: bytes) }
                if repairedFields.isDisjoint(with: [.contentState, .attributes, .event, .aps]),
                    let mismatch = smallerCommand.map(\.mismatch) ?? contractMismatch(of: command, in: bytes)
                {
                    messages.append(mismatch)
                }
            case .registration:
                app = try Registration.decode(bytes).app
            }
            // A worker does not resolve escapes in `app`, so it does not know an app with escapes.
            if app.isEscaped { messages.append((Int(app.range.offset), "app: must be written without escapes")) }
            guard let configuredNames else { return .success(messages) }
            let name = app.text(in: bytes)
            if configuredNames.policyNamesByApp[name] == nil, !repairedFields.contains(.app) {
                messages.append((0, "app: \(name) is not in the configuration"))
            }
            if let policy, configuredNames.droppedFieldsByPolicy[policy] == nil, !repairedFields.contains(.policy) {
                messages.append((0, "policy: \(policy) is not in the configuration"))
            }
            return .success(messages)
        } catch {
            return .failure(error)
        }
    }

    /// Returns where and how a command's content breaks the app's contract, so that no phone could decode it. Returns
    /// nil if the content fits, or if the contract is not known. Also returns mismatches about which a worker would
    /// only warn.
    private func contractMismatch(
        of command: Command,
        in bytes: UnsafeRawBufferPointer
    ) -> (offset: Int, message: String)? {
        guard let rule = contracts[command.app.text(in: bytes)] else { return nil }
        let unmanagedContract = UnmanagedContract(copying: rule.contract)
        defer { unmanagedContract.deallocate() }
        do throws(ContractMismatch) {
            try unmanagedContract.check(command, in: bytes)
            return nil
        } catch {
            return (error.offset, unmanagedContract.message(error, command, in: bytes))
        }
    }
}

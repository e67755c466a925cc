import LiveActivity

/// Rejects commands that no phone of their app could decode. APNs would accept them, and the phones would
/// show nothing.
extension Delivery {
    /// How many states were compared completely with their shapes. A state that is remembered is not compared
    /// again.
    public var statesCompared: UInt64 { contracts.compared }

    /// Rejects a command that no phone could decode, unless its app only wants to be warned.
    @inline(__always)
    mutating func rejectsUndecodable(
        _ command: Command,
        from value: UnsafeRawBufferPointer,
        index: UInt32,
        record: IncomingRecord
    ) -> Bool {
        let application = records[index].application
        guard
            let mismatch = contracts.mismatch(
                of: command,
                application,
                dictionary: lastAps.dictionary,
                in: value
            )
        else { return false }
        return handle(mismatch, of: command, application, from: record, value, index)
    }

    /// Counts a command that does not fit its app's contract. Rejects it, unless the app only wants to be
    /// warned.
    /// - Returns: whether the command was rejected.
    @inline(never)
    mutating func handle(
        _ mismatch: ContractMismatch,
        of command: Command,
        _ application: UInt16,
        from record: IncomingRecord,
        _ value: UnsafeRawBufferPointer,
        _ index: UInt32
    ) -> Bool {
        countUndecodable(application)
        let isRefusing = contracts.isRefusing(application)
        // The dead letter has the whole record, so its header may quote the value. The log has no person's
        // data.
        if isRefusing || contractWarning == nil {
            let message = contracts.message(mismatch, of: command, application, in: value, showsValue: isRefusing)
            guard !isRefusing else {
                reject(record, index, command.identifier, decodedFrom: value, code: "undecodable", detail: message)
                return true
            }
            contractWarning = ContractWarning(
                application: Int(application),
                source: source(of: index),
                message: message
            )
        }
        return false
    }

    /// Removes and returns the oldest warning that was not taken yet. One warning is kept; later commands are
    /// only counted until it is taken.
    public mutating func takeContractWarning() -> ContractWarning? {
        guard let warning = contractWarning else { return nil }
        contractWarning = nil
        return warning
    }
}

/// A command that is sent although no phone could decode it, because its app only wants to be warned.
public struct ContractWarning: Equatable, Sendable {
    public var application: Int
    /// The command's place: topic, partition and offset.
    public var source: String
    /// The path, what was found there, and the type that is expected.
    public var message: String
}

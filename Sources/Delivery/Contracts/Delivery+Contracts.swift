import LiveActivity

/// Finds commands that no phone of their app could decode, according to the app's contract. APNs would accept them, and
/// the phones would show nothing.
extension Delivery {
    /// The number of states that were compared in full with their app's contract since the contracts were last loaded.
    /// A state that is compared only with remembered states does not count (`LaneContracts.findMismatch`).
    public var comparedStateCount: UInt64 { contracts.comparedStateCount }

    /// Checks a command against its app's contract. Rejects a command that no phone could decode. If the configuration
    /// of the app asks only for warnings, keeps a warning instead (`rejectOrWarn`).
    ///
    /// - Returns: whether the command was rejected.
    @inline(__always)
    mutating func rejectIfUndecodable(
        _ command: Command,
        from value: UnsafeRawBufferPointer,
        index: RecordIndex,
        record: IncomingRecord
    ) -> Bool {
        let appIndex = records[index].appIndex
        guard
            let mismatch = contracts.findMismatch(
                of: command,
                appIndex,
                apsDictionaryNumber: apsCache.apsDictionaryNumber,
                in: value
            )
        else { return false }
        return rejectOrWarn(mismatch, of: command, appIndex, from: record, value, index)
    }

    /// Counts a command that does not fit its app's contract, and rejects it. If the configuration of the app asks only
    /// for warnings, keeps a warning for the shell instead, unless another warning is kept already.
    ///
    /// - Returns: whether the command was rejected.
    @inline(never)
    mutating func rejectOrWarn(
        _ mismatch: ContractMismatch,
        of command: Command,
        _ appIndex: UInt16,
        from record: IncomingRecord,
        _ value: UnsafeRawBufferPointer,
        _ index: RecordIndex
    ) -> Bool {
        countUndecodableCommand(appIndex)
        let rejectsMismatches = contracts.rejectsMismatches(appIndex)
        // The message in a dead letter may quote a value of the command, because the dead letter has the whole record
        // anyway. A warning must not quote one: it goes to the log, which must not have personal data.
        if rejectsMismatches || contractWarning == nil {
            let message = contracts.message(
                mismatch,
                of: command,
                appIndex,
                in: value,
                showsValue: rejectsMismatches
            )
            guard !rejectsMismatches else {
                finishAsInvalid(
                    record,
                    index,
                    command.identifier,
                    decodedFrom: value,
                    code: "undecodable",
                    detail: message
                )
                return true
            }
            contractWarning = ContractWarning(
                appIndex: Int(appIndex),
                source: sourceText(of: index),
                message: message
            )
        }
        return false
    }

    /// Removes and returns the kept warning; nil if there is none. The core keeps one warning at a time: until the
    /// shell takes it, further commands are only counted.
    public mutating func takeContractWarning() -> ContractWarning? {
        guard let warning = contractWarning else { return nil }
        contractWarning = nil
        return warning
    }
}

/// A warning about a command that no phone could decode. The command is not rejected, because the configuration of its
/// app asks only for warnings.
public struct ContractWarning: Equatable, Sendable {
    public var appIndex: Int
    /// Where the command was read first: topic, partition and offset.
    public var source: String
    /// What does not fit the contract: the path in the content, what is there, and what the contract expects; or the
    /// attributes type that the contract does not have. Values of the content are not quoted.
    public var message: String
}

import Delivery
import LiveActivity
import Testing

extension CoreHarness {
    /// Returns a core that has deferred a command of `a`, because the command's pool accepts nothing.
    static func withBlockedPool(_ command: String = .update(1)) throws -> CoreHarness {
        let core = DeferralTests.makeCore()
        core.receive(command)
        core.reply(.send)
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        core.acknowledgeAll()
        try #require(core.deferrals.count == 1 && core.inProgressRecordCount == 0)
        return core
    }

    func takeDuePoolRecoveryReport() -> Bool { delivery.takeDuePoolRecoveryReport(now: now) }

    /// Lets time pass in steps of at most 100 ms, as for a lane, which reads the clock at every iteration.
    func elapseInSteps(_ milliseconds: Int64) {
        var remainingMilliseconds = milliseconds
        while remainingMilliseconds > 0 {
            elapse(min(remainingMilliseconds, 100))
            remainingMilliseconds -= 100
        }
    }

    /// Gives the deferred command to the core again, as a worker does when the command is due.
    ///
    /// - Parameter writtenAtWallMilliseconds: when the deferred record was written; nil: now.
    func receive(
        _ seen: SeenDeferral,
        partition partitionIndex: UInt32? = nil,
        writtenAtWallMilliseconds: Int64? = nil
    ) {
        let partitionIndex = partitionIndex ?? deferredPartition
        let offset = nextOffsets[partitionIndex, default: 0]
        nextOffsets[partitionIndex] = offset + 1
        Array(seen.value.utf8)
            .withUnsafeBytes { value in
                let record = IncomingRecord(
                    partitionIndex: partitionIndex,
                    offset: offset,
                    timestampMilliseconds: writtenAtWallMilliseconds ?? now.wallMilliseconds,
                    key: nil,
                    value: value
                )
                Array(seen.droppedFields.utf8)
                    .withUnsafeBytes { droppedFields in
                        delivery.receive(record, deferred: seen.deferral, droppedFields: droppedFields, now: now)
                    }
            }
        endBatch()
    }
}

import LiveActivity

/// Limits the memory of the held commands that registrations release. (R4)
///
/// A registration in the lane has about 0.5 KiB of blocks. If the reply to its call brings a held command, the record
/// also gets a body of up to 4 KiB. The lane may have tens of thousands of registrations, and replies come faster than
/// pushes leave. So while there are too few free bytes for the commands that the replies may bring, further calls
/// `registerToken` wait in `heldBackRegistrations`.
///
/// Without this limit, the lane could need several times the bytes that it may use. So could each next owner of its
/// partitions, because no registration would be settled.
extension Delivery {
    /// The lane makes a call `registerToken` even without free bytes if such calls under way and released commands are
    /// together fewer than this number. So registrations never stop. The bodies that are released without free bytes
    /// have at most 256 KiB.
    private static var releasesWithoutFreeBytesMax: Int { 64 }

    /// Holds back the next call, a call `registerToken`, if it may bring a held command for which the lane has no room.
    ///
    /// - Returns: whether the call was held back.
    mutating func holdBackRegistrationIfNoRoom(_ ticket: StoreTicket) -> Bool {
        guard !hasRoomForReleasedCommand, mayBringHeldCommand(ticket.record) else { return false }
        guard storeQueue.popFirst() == ticket else { preconditionFailure("another call waits") }
        recordsAwaitingStoreCount -= 1
        heldBackRegistrations.append(ticket)
        return true
    }

    /// Makes the call that has been held back longest the next one, if the lane has room now. Called whenever the shell
    /// asks for a call while calls are held back, because any event may have freed bytes.
    @inline(never)
    mutating func resumeHeldBackRegistrationIfRoom() {
        guard hasRoomForReleasedCommand, let ticket = heldBackRegistrations.popFirst() else { return }
        recordsAwaitingStoreCount += 1
        storeQueue.prepend(ticket)
    }

    /// Queues all calls that are held back, because a partition is being revoked. The calls for its registrations are
    /// made now, because the lane keeps no command that they bring (`mayBringHeldCommand`). The other calls are held
    /// back again.
    mutating func requeueHeldBackRegistrations() {
        while let ticket = heldBackRegistrations.popFirst() {
            recordsAwaitingStoreCount += 1
            storeQueue.append(ticket)
        }
    }

    /// Whether the lane has bytes for one more held command, besides those that the calls `registerToken` under way may
    /// bring. Also true while these calls and the released commands are few (`releasesWithoutFreeBytesMax`).
    private var hasRoomForReleasedCommand: Bool {
        let releasedBodyBytesMax = (registrationCallsUnderWayCount + 1) * Limits.bodyBytesMax
        return usedBlockBytes <= configuration.usedBlockBytesMax - releasedBodyBytesMax
            || registrationCallsUnderWayCount + records.releasedCommandCount < Self.releasesWithoutFreeBytesMax
    }

    /// Whether the reply to a record's call `registerToken` may put a held command into the record's slot, to stay in
    /// the lane. False for a current command, which keeps its slot, and for a record of a revoked partition, which is
    /// dropped.
    private func mayBringHeldCommand(_ record: RecordIndex) -> Bool {
        records[record].stage != .current && !isPartitionRevoked(record)
    }
}

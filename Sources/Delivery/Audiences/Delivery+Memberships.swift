import LiveActivity

/// Notifies audiences of the activities and devices that join or leave them. (R27)
///
/// A member's record in Redis lists the audiences that the member is in, and the audiences that it left and
/// that may not have been notified yet. A change has three steps. First a registration, a tombstone, an
/// accepted end or a dead token changes this record. Then the core of audiences notifies the audiences. Then
/// Redis records that they are notified. If a worker dies between two steps, either the Kafka record is read
/// again, or the next reply about the member names the audiences once more. An admission waits until they are
/// notified (`StoreVerdict.leaves`).
///
/// What must hold:
/// - A record is settled only when the audiences that its replies named are notified, and Redis has recorded
///   this.
/// - A change counts as one acknowledgement that its record waits for.
extension Delivery {
    /// The next change for the core of audiences; nil if there is none. The change stays first until
    /// `membershipChangeTaken`.
    public var nextMembershipChange: MembershipChange? {
        guard let member = memberships.first, let change = memberships[member] else { return nil }
        let slot = records.address(of: member.record)
        let leaves = memberships.leaves(of: member)
        let joins = change.joins ? slot.pointee.bytes(slot.pointee.audiences) : .init(start: nil, count: 0)
        return MembershipChange(
            member: member,
            joins: AudienceList(joins),
            wasMember: change.wasMember,
            leaves: leaves?.audiences ?? AudienceList(UnsafeRawBufferPointer(start: nil, count: 0)),
            leftAtMilliseconds: leaves?.atMilliseconds ?? 0
        )
    }

    /// Removes the change that `nextMembershipChange` named, because the core of audiences has taken it.
    public mutating func membershipChangeTaken() { memberships.removeFirst() }

    /// Continues the record of a taken change, after all audiences of the change have been notified.
    public mutating func membershipChanged(_ member: ChangingMember, now: Moment) {
        let record = member.record
        guard memberships.leaves(of: member) == nil else {
            let purpose: StoreTicket.Purpose = member.kind == .activity ? .confirmActivityLeaves : .confirmDeviceLeaves
            call(purpose, record, application: member.application)
            return acknowledge(record)
        }
        let change = memberships.end(member)
        acknowledge(record)
        continueAfterChange(record, change.continuation, now: now)
    }

    /// Begins a change if a reply names audiences that may not have been notified that the member left.
    mutating func noteLeaves(_ ticket: StoreTicket, _ leaves: UnsafeRawBufferPointer) {
        let member = ChangingMember(ticket, records[ticket.record])
        // A record can have two calls for one member. The reply to the second call needs no change of its own: it
        // names the same audiences, or a later reply names its audiences again.
        guard ticket.purpose != .limit, !memberships.has(member), AudienceDepartures(leaves) != nil else { return }
        let block = records.allocateBlock(leaves.count)
        UnsafeMutableRawBufferPointer(start: block.base, count: leaves.count).copyMemory(from: leaves)
        let isTombstone = ticket.purpose == .unregisterActivity || ticket.purpose == .unregisterDevice
        let continuation: PendingMembershipChanges.Continuation = isTombstone ? .unregistered : .acknowledged
        records[ticket.record].awaitAcknowledgement()
        memberships.begin(member, .init(leaves: block, leavesCount: leaves.count, continuation: continuation))
    }

    /// Begins the change of audiences that the reply to a registration requires.
    ///
    /// - Returns: whether the registration must wait. The audiences are notified before Redis is asked for
    ///   the command that is held for the token. In this order they are notified even if the held command
    ///   fails, or a crash makes another worker read the registration again.
    mutating func changesAudiences(_ record: UInt32, _ reply: Reply, now: Moment) -> Bool {
        let slot = records.address(of: record)
        if reply.verdict == .full {
            // Redis' list of the audiences that the member left, and that are not notified yet, is full. The
            // registration is made again later.
            records[record].awaitAcknowledgement()
            recordsAwaitingStore += 1
            storeQueue.setAside(StoreTicket(.register, application: slot.pointee.application, record: record), now: now)
            return true
        }
        let joins = reply.verdict == .registered && !slot.pointee.audiencesKnow && slot.pointee.audiences.count > 0
        guard joins || reply.leaves != nil else { return false }
        let member = ChangingMember(record, slot.pointee, slot.pointee.device.count > 0 ? .device : .activity)
        // A reply that names audiences which the member left does not bring a held command.
        let mayHold = reply.verdict == .registered && (reply.heldCommand != nil || reply.leaves != nil)
        let continuation: PendingMembershipChanges.Continuation = mayHold ? .register : .settle
        if !memberships.has(member) {
            records[record].awaitAcknowledgement()
            memberships.begin(
                member,
                .init(joins: joins, wasMember: reply.wasMember, continuation: continuation)
            )
        } else {
            memberships.set(continuation, joins: joins, wasMember: reply.wasMember, of: member)
        }
        return true
    }

    /// Ends a change, after Redis has recorded that the audiences are notified.
    mutating func leavesConfirmed(_ ticket: StoreTicket, now: Moment) {
        let change = memberships.end(ChangingMember(ticket))
        records.free(change.leaves)
        continueAfterChange(ticket.record, change.continuation, now: now)
    }

    private mutating func continueAfterChange(
        _ record: UInt32,
        _ continuation: PendingMembershipChanges.Continuation,
        now: Moment
    ) {
        switch continuation {
        case .acknowledged: break
        case .unregistered: unregistered(record)
        case .settle: settleWithoutResult(record)
        case .register:
            records[record].audiencesKnow = true
            call(.register, record)
        case .admit: call(.admit, record)
        }
    }
}

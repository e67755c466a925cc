import LiveActivity

/// Which audiences an activity or a device is in.
///
/// Its record in the store knows the audiences that it is in, and those that it has left and that may not know of it. A registration,
/// a tombstone, an accepted end and a dead token change that first; then the audiences are told, by the core of audiences; then the store
/// is told that they know. Whoever dies between two of these steps leaves a record that is read again, or audiences that the next reply
/// about the member names: an admission waits for them (`StoreVerdict.leaves`).
///
/// What must hold:
/// - a record is settled only when the audiences that its replies named know, and the store knows that they do;
/// - a change counts as an acknowledgement that its record waits for.
extension Delivery {
    /// The next change for the core of audiences; nil if there is none. It stays first until `membershipChangeTaken`.
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

    /// The core of audiences has the change that `nextMembershipChange` named.
    public mutating func membershipChangeTaken() { memberships.removeFirst() }

    /// All audiences of a change that was taken know of it.
    public mutating func membershipChanged(_ member: ChangingMember, now: Moment) {
        let record = member.record
        guard memberships.leaves(of: member) == nil else {
            let purpose: StoreTicket.Purpose = member.kind == .activity ? .confirmActivityLeaves : .confirmDeviceLeaves
            call(purpose, record, application: member.application)
            return acknowledge(record)
        }
        let change = memberships.end(member)
        acknowledge(record)
        proceed(record, change.continuation, now: now)
    }

    /// A reply named audiences that may not know that the member has left.
    mutating func noteLeaves(_ ticket: StoreTicket, _ leaves: UnsafeRawBufferPointer) {
        let member = ChangingMember(ticket, records[ticket.record])
        // Two calls of a record for one member: the second names what the first has named, or is heard again.
        guard ticket.purpose != .limit, !memberships.has(member), AudienceLeaves(leaves) != nil else { return }
        let block = records.allocateBlock(leaves.count)
        UnsafeMutableRawBufferPointer(start: block.base, count: leaves.count).copyMemory(from: leaves)
        let isTombstone = ticket.purpose == .unregisterActivity || ticket.purpose == .unregisterDevice
        let continuation: Memberships.Continuation = isTombstone ? .unregistered : .acknowledged
        records[ticket.record].awaitAcknowledgement()
        memberships.begin(member, .init(leaves: block, leavesCount: leaves.count, continuation: continuation))
    }

    /// A registration was answered.
    /// - Returns: whether audiences are told first. What is held for the token is asked for afterwards: of a registration that comes again
    ///   after a crash the audiences must have been told, whatever becomes of that command.
    mutating func changesAudiences(_ record: UInt32, _ reply: Reply, now: Moment) -> Bool {
        let slot = records.address(of: record)
        if reply.verdict == .full {
            // Too many audiences that the member has left have yet to know of it.
            records[record].awaitAcknowledgement()
            recordsAwaitingStore += 1
            storeQueue.setAside(StoreTicket(.register, application: slot.pointee.application, record: record), now: now)
            return true
        }
        let joins = reply.verdict == .registered && !slot.pointee.hasToldAudiences && slot.pointee.audiences.count > 0
        guard joins || reply.leaves != nil else { return false }
        let member = ChangingMember(record, slot.pointee, slot.pointee.device.count > 0 ? .device : .activity)
        // A reply that names audiences leaves out what is held.
        let mayHold = reply.verdict == .registered && (reply.heldCommand != nil || reply.leaves != nil)
        let continuation: Memberships.Continuation = mayHold ? .register : .settle
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

    /// The store knows that the audiences know.
    mutating func leavesConfirmed(_ ticket: StoreTicket, now: Moment) {
        let change = memberships.end(ChangingMember(ticket))
        records.free(change.leaves)
        proceed(ticket.record, change.continuation, now: now)
    }

    private mutating func proceed(_ record: UInt32, _ continuation: Memberships.Continuation, now: Moment) {
        switch continuation {
        case .acknowledged: break
        case .unregistered: unregistered(record)
        case .settle: settleWithoutResult(record)
        case .register:
            records[record].hasToldAudiences = true
            call(.register, record)
        case .admit: call(.admit, record)
        }
    }
}

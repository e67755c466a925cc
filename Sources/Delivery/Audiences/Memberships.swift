import LiveActivity

/// The changes of audiences that have begun and are not confirmed.
struct Memberships: ~Copyable {
    /// What the record does when its audiences know.
    enum Continuation: UInt8 {
        /// It waits for acknowledgements, of which this was one.
        case acknowledged
        /// A tombstone.
        case unregistered
        /// A registration of a token for which nothing is held.
        case settle
        /// A registration: what is held for the token comes with the next reply.
        case register
        /// A command that is current.
        case admit
    }

    struct Change: BitwiseCopyable {
        /// As the store said them; none where the member only joins.
        var leaves = Arena.Block.none
        var leavesCount = 0
        /// The member joins the audiences that its registration names.
        var joins = false
        /// It was in all of them before.
        var wasMember = false
        var continuation: Continuation
    }

    /// Its place in the table, at most half full, and in the queue.
    static var bytesPerChange: Int { 2 * (MemoryLayout<Change>.stride + MemoryLayout<ChangingMember>.stride) + 16 }

    private var changes: [ChangingMember: Change] = [:]
    /// Begun, and not taken by the core of audiences.
    private var waiting: IndexQueue<ChangingMember>

    init(limit: Int) { waiting = IndexQueue(limit: limit) }

    var first: ChangingMember? { waiting.first }
    mutating func removeFirst() { precondition(waiting.popFirst() != nil, "no change waits") }

    func has(_ member: ChangingMember) -> Bool { changes[member] != nil }
    subscript(_ member: ChangingMember) -> Change? { changes[member] }

    mutating func begin(_ member: ChangingMember, _ change: Change) {
        precondition(changes.updateValue(change, forKey: member) == nil, "a member's audiences change twice at a time")
        waiting.append(member)
    }

    mutating func set(
        _ continuation: Continuation,
        joins: Bool = false,
        wasMember: Bool = false,
        of member: ChangingMember
    ) {
        guard var change = changes[member] else { preconditionFailure("no such change has begun") }
        (change.continuation, change.joins, change.wasMember) = (continuation, joins, wasMember)
        changes[member] = change
    }

    mutating func end(_ member: ChangingMember) -> Change {
        guard let change = changes.removeValue(forKey: member) else { preconditionFailure("no such change has begun") }
        return change
    }

    func leaves(of member: ChangingMember) -> AudienceLeaves? {
        guard let change = changes[member], change.leavesCount > 0 else { return nil }
        return AudienceLeaves(UnsafeRawBufferPointer(start: change.leaves.base, count: change.leavesCount))
    }

    func leftAtMilliseconds(of member: ChangingMember) -> Int64 { leaves(of: member)?.atMilliseconds ?? 0 }
}

extension ChangingMember {
    /// Of a call that confirms.
    init(_ ticket: StoreTicket) {
        let kind: StoreSubjectKind = ticket.purpose == .confirmDeviceLeaves ? .device : .activity
        self.init(record: ticket.record, application: ticket.application, kind: kind)
    }

    /// Whom a call of a record is about.
    init(_ ticket: StoreTicket, _ slot: RecordSlot) {
        let kind: StoreSubjectKind =
            switch ticket.purpose {
            case .register, .hold: slot.device.count > 0 ? .device : .activity
            case .address, .settleDevice, .unregisterDevice, .refundStart, .confirmDeviceLeaves: .device
            case .admit, .settle, .limit, .retire, .unregisterActivity, .confirmActivityLeaves: .activity
            }
        self.init(record: ticket.record, application: ticket.application, kind: kind)
    }

    init(_ record: UInt32, _ slot: RecordSlot, _ kind: StoreSubjectKind) {
        self.init(record: record, application: slot.application, kind: kind)
    }
}

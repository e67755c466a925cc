import LiveActivity

/// The changes of members' audiences that have begun. A change stays here until its audiences are notified and, if the
/// member left any, Redis has recorded that these are notified. (R27)
struct PendingMembershipChanges: ~Copyable {
    /// What the Kafka record does next when the change of its member's audiences ends.
    enum NextStep: UInt8 {
        /// Nothing: the record continues when all its acknowledgements have come. The end of this change is one of
        /// them.
        case awaitAcknowledgements
        /// The record is a tombstone, which names no app. When its other calls and changes are acknowledged too, it
        /// makes the calls for the next configured app. After the last app it settles.
        case continueUnregistration
        /// The record is a registration, and settles. Either Redis holds no command for its token, or Redis calls the
        /// registration stale, usually because Redis has a newer one.
        case settle
        /// The record is a registration, and Redis may hold a command for its token. The lane makes the call
        /// `registerToken` again to get that command.
        case registerForHeldCommand
        /// The record is a registration that Redis refused for lack of room: the member had left too many audiences
        /// that were not notified. The lane makes the call `registerToken` again.
        case repeatRegistration
        /// The record is its activity's current command. The lane asks Redis again to admit it.
        case admit
    }

    struct Change: BitwiseCopyable {
        /// The digests of the audiences that the member left, as in Redis' reply; none if the member only joins
        /// audiences.
        var departuresBlock = Arena.Block.none
        var departuresByteCount = 0
        /// Whether the member joins the audiences that its registration names.
        var joinsAudiences = false
        /// Whether the member was already in all of the audiences that it joins.
        var wasMemberOfAllAudiences = false
        var nextStep: NextStep
    }

    /// The most bytes of memory that one change takes: 16 in the queue, and two elements of the dictionary, because
    /// half of the dictionary may be unused.
    static var bytesPerChange: Int { 2 * (MemoryLayout<Change>.stride + MemoryLayout<ChangingMember>.stride) + 16 }

    private var changes: [ChangingMember: Change] = [:]
    /// The members whose changes the core of audiences must still take, oldest change first.
    private var untakenMembers: IndexQueue<ChangingMember>

    init(limit: Int) { untakenMembers = IndexQueue(limit: limit) }

    var firstUntaken: ChangingMember? { untakenMembers.first }
    mutating func removeFirstUntaken() { precondition(untakenMembers.popFirst() != nil, "no change waits") }

    func contains(_ member: ChangingMember) -> Bool { changes[member] != nil }
    subscript(_ member: ChangingMember) -> Change? { changes[member] }

    /// Adds a change. Traps if a change of the same member by the same record is under way.
    mutating func begin(_ member: ChangingMember, _ change: Change) {
        precondition(changes.updateValue(change, forKey: member) == nil, "a member's audiences change twice at a time")
        untakenMembers.append(member)
    }

    /// Changes the next step of a change that has begun, and replaces what the change says about joined audiences.
    mutating func setNextStep(
        _ nextStep: NextStep,
        joinsAudiences: Bool = false,
        wasMemberOfAllAudiences: Bool = false,
        of member: ChangingMember
    ) {
        guard var change = changes[member] else { preconditionFailure("no such change has begun") }
        (change.nextStep, change.joinsAudiences, change.wasMemberOfAllAudiences) = (
            nextStep, joinsAudiences, wasMemberOfAllAudiences
        )
        changes[member] = change
    }

    /// Removes and returns a change. The caller frees the change's `departuresBlock`.
    mutating func end(_ member: ChangingMember) -> Change {
        guard let change = changes.removeValue(forKey: member) else { preconditionFailure("no such change has begun") }
        return change
    }

    /// Returns the audiences that the member left; nil if it left none, or if no change of it is under way.
    func departures(of member: ChangingMember) -> AudienceDepartures? {
        guard let change = changes[member], change.departuresByteCount > 0 else { return nil }
        return AudienceDepartures(
            UnsafeRawBufferPointer(start: change.departuresBlock.base, count: change.departuresByteCount)
        )
    }

    /// Returns when the member left its audiences, UNIX milliseconds; 0 if `departures` returns nil.
    func leftAtWallMilliseconds(of member: ChangingMember) -> Int64 { departures(of: member)?.leftAtMilliseconds ?? 0 }
}

extension ChangingMember {
    /// The member that a call `confirmActivityDepartures` or `confirmDeviceDepartures` is about.
    init(_ ticket: StoreTicket) {
        let kind: StoreSubjectKind = ticket.purpose == .confirmDeviceDepartures ? .device : .activity
        self.init(record: ticket.record, appIndex: ticket.appIndex, kind: kind)
    }

    /// The activity or device that a store call is about.
    ///
    /// - Parameter slot: the slot of the record that `ticket` names.
    init(_ ticket: StoreTicket, _ slot: RecordSlot) {
        let kind: StoreSubjectKind =
            switch ticket.purpose {
            case .registerToken, .hold: slot.texts.device.count > 0 ? .device : .activity
            case .takeStartToken, .settleStart, .unregisterDevice, .refundStart, .confirmDeviceDepartures: .device
            case .admit, .recordStart, .settle, .throttle, .retireToken, .unregisterActivity,
                .confirmActivityDepartures, .reportLifetimeEvent, .checkLifetime:
                .activity
            }
        self.init(record: ticket.record, appIndex: ticket.appIndex, kind: kind)
    }

    init(_ record: RecordIndex, _ slot: RecordSlot, _ kind: StoreSubjectKind) {
        self.init(record: record, appIndex: slot.appIndex, kind: kind)
    }
}

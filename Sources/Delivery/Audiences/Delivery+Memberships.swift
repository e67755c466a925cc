import LiveActivity

/// Notifies audiences of the members that join or leave them: writes an entry about the member into a page of each
/// audience. (R27)
///
/// A member's value in Redis lists the audiences that the member is in, and those that it left and that are perhaps not
/// notified yet. A change has three steps:
/// 1. Redis changes the member's value, because of a registration, a tombstone, an accepted end or a token that APNs
///    refused.
/// 2. The core of audiences notifies the audiences. If Redis permanently refuses an entry, the audience counts as
///    notified too.
/// 3. If the member left audiences, Redis records in the member's value that they are notified.
///
/// If a worker dies between two steps, nothing is lost: the next owner reads the Kafka record again, or the next reply
/// about the member names the audiences again. An admission waits until these audiences are notified
/// (`StoreVerdict.departures`).
///
/// What must hold:
/// - A Kafka record is settled only after step 2 and, if the member left audiences, after step 3. If Redis permanently
///   refuses the call of step 3, the step counts as done.
/// - Until its audiences are notified, a change counts as one outstanding acknowledgement of its Kafka record
///   (`RecordEnding`).
extension Delivery {
    /// The next change for the core of audiences; nil if there is none. The change stays first until
    /// `removeNextMembershipChange`.
    public var nextMembershipChange: MembershipChange? {
        guard let member = membershipChanges.firstUntaken, let change = membershipChanges[member] else { return nil }
        let slot = records.address(of: member.record)
        let departures = membershipChanges.departures(of: member)
        let joinedAudiences =
            change.joinsAudiences
            ? slot.pointee.bytes(slot.pointee.registration.audienceDigests) : .init(start: nil, count: 0)
        return MembershipChange(
            member: member,
            joinedAudiences: AudienceList(joinedAudiences),
            wasMemberOfAllAudiences: change.wasMemberOfAllAudiences,
            leftAudiences: departures?.audiences ?? AudienceList(UnsafeRawBufferPointer(start: nil, count: 0)),
            leftAtWallMilliseconds: departures?.leftAtMilliseconds ?? 0
        )
    }

    /// Removes the change that `nextMembershipChange` named, because the core of audiences has taken it.
    public mutating func removeNextMembershipChange() { membershipChanges.removeFirstUntaken() }

    /// Continues a change whose audiences the core of audiences has notified. If the member left audiences, asks Redis
    /// to record that these audiences are notified. Otherwise ends the change, and does the next step of its Kafka
    /// record (`PendingMembershipChanges.NextStep`).
    public mutating func handleNotifiedAudiences(_ member: ChangingMember, now: Moment) {
        let record = member.record
        guard membershipChanges.departures(of: member) == nil else {
            let purpose: StoreTicket.Purpose =
                member.kind == .activity ? .confirmActivityDepartures : .confirmDeviceDepartures
            queueStoreCall(purpose, record, appIndex: member.appIndex)
            return acknowledge(record)
        }
        let change = membershipChanges.end(member)
        acknowledge(record)
        continueAfterMembershipChange(record, change.nextStep, now: now)
    }

    /// Begins a change if Redis' reply names audiences that the member left and that are perhaps not notified yet.
    mutating func beginDepartureChange(_ ticket: StoreTicket, _ departures: UnsafeRawBufferPointer) {
        let member = ChangingMember(ticket, records[ticket.record])
        // A record may make two calls about the same member. Both replies may name the same audiences, because Redis
        // names them until it knows that they are notified. So only the first reply begins a change. While the change
        // lasts, `contains` is true, and the second reply begins none.
        //
        // The reply to `throttle` begins no change either. The command is admitted again afterwards, and the reply to
        // this admission names the audiences again.
        guard ticket.purpose != .throttle, !membershipChanges.contains(member), AudienceDepartures(departures) != nil
        else {
            return
        }
        let block = records.allocateBlock(departures.count)
        UnsafeMutableRawBufferPointer(start: block.base, count: departures.count).copyMemory(from: departures)
        let isTombstone = ticket.purpose == .unregisterActivity || ticket.purpose == .unregisterDevice
        let nextStep: PendingMembershipChanges.NextStep =
            isTombstone ? .continueUnregistration : .awaitAcknowledgements
        records[ticket.record].ending.expectAcknowledgement()
        membershipChanges.begin(
            member,
            .init(departuresBlock: block, departuresByteCount: departures.count, nextStep: nextStep)
        )
    }

    /// Begins the change of audiences that the reply to a registration requires. The lane gets a command that Redis
    /// holds for the token only after this change. So the audiences are notified even if that command fails, or after a
    /// crash.
    ///
    /// - Returns: whether the registration must wait: for the end of the change or, after the reply `full`, until the
    ///   call is repeated.
    mutating func beginMembershipChange(_ record: RecordIndex, _ reply: Reply, now: Moment) -> Bool {
        let slot = records.address(of: record)
        let member = ChangingMember(
            record: record,
            appIndex: slot.pointee.appIndex,
            kind: slot.pointee.texts.device.count > 0 ? .device : .activity
        )
        if reply.verdict == .full {
            // The reply `full` has one of two causes. The first: the member has left too many audiences that are not
            // notified yet. The reply named them, and `beginDepartureChange` has begun to notify them. Repeat the call
            // when they are notified.
            guard !membershipChanges.contains(member) else {
                membershipChanges.setNextStep(.repeatRegistration, of: member)
                return true
            }
            // The second cause of `full`: the reply had no room for the held command. Repeat the call after a pause.
            records[record].ending.expectAcknowledgement()
            recordsAwaitingStoreCount += 1
            let ticket = StoreTicket(.registerToken, appIndex: slot.pointee.appIndex, record: record)
            storeQueue.setAside(ticket, isAnswered: true, now: now)
            return true
        }
        let joinsAudiences =
            reply.verdict == .registered && !slot.pointee.registration.skipsMembershipChange
            && slot.pointee.registration.audienceDigests.count > 0
        guard joinsAudiences || reply.departures != nil else { return false }
        // A reply that names audiences which the member left has no held command, although Redis may have one. So the
        // lane repeats the call `registerToken` after the change.
        let mayRedisHoldCommand = reply.verdict == .registered && (reply.heldCommand != nil || reply.departures != nil)
        let nextStep: PendingMembershipChanges.NextStep = mayRedisHoldCommand ? .registerForHeldCommand : .settle
        if !membershipChanges.contains(member) {
            records[record].ending.expectAcknowledgement()
            membershipChanges.begin(
                member,
                .init(
                    joinsAudiences: joinsAudiences,
                    wasMemberOfAllAudiences: reply.wasMemberOfAllAudiences,
                    nextStep: nextStep
                )
            )
        } else {
            membershipChanges.setNextStep(
                nextStep,
                joinsAudiences: joinsAudiences,
                wasMemberOfAllAudiences: reply.wasMemberOfAllAudiences,
                of: member
            )
        }
        return true
    }

    /// Ends a change, because Redis has recorded that the audiences are notified, or has permanently refused to record
    /// this.
    mutating func endMembershipChange(_ ticket: StoreTicket, now: Moment) {
        let change = membershipChanges.end(ChangingMember(ticket))
        records.free(change.departuresBlock)
        continueAfterMembershipChange(ticket.record, change.nextStep, now: now)
    }

    /// Does the next step of a Kafka record whose change of audiences has ended.
    private mutating func continueAfterMembershipChange(
        _ record: RecordIndex,
        _ nextStep: PendingMembershipChanges.NextStep,
        now: Moment
    ) {
        switch nextStep {
        case .awaitAcknowledgements: break
        case .continueUnregistration: continueUnregistrationIfAcknowledged(record)
        case .settle: settleWithoutResult(record)
        case .registerForHeldCommand:
            records[record].registration.skipsMembershipChange = true
            queueStoreCall(.registerToken, record)
        case .repeatRegistration: queueStoreCall(.registerToken, record)
        case .admit: queueStoreCall(.admit, record)
        }
    }
}

public import Delivery
public import LiveActivity

/// The calls to the audience store leave in the order in which the core queued them, except calls that are delayed or
/// repeated. A call that failed for a temporary reason is repeated, which every call permits. (R15)
extension Audiences {
    private typealias Operation = AudienceCall<UnsafeRawBufferPointer>.Operation

    /// Passes the next call to `body` and returns the result of `body`; nil if there is no call now. The call stays the
    /// next one until the shell reports that it was taken, delayed or refused. Calls that are of no use any more are
    /// removed first.
    ///
    /// - Parameter body: must not change the core. The call's bytes are valid only inside `body`.
    public mutating func withNextStoreCall<Result>(
        now: Moment,
        _ body: (AudienceCall<UnsafeRawBufferPointer>) -> Result
    ) -> Result? {
        sendPageReadsIfDue(now: now)
        while let ticket = storeQueue.next(now: now) {
            if removeCallIfUnneeded(ticket, now: now) { continue }
            if case .checkpoint(let round) = ticket {
                guard let text = composeCheckpointText(of: round) else {
                    discardCheckpoint(round, now: now)
                    continue
                }
                return text.withUnsafeBytes { text in
                    let slot = rounds[round]
                    return body(
                        makeCall(
                            ticket,
                            slot.appIndex,
                            slot.storeKeyDigest,
                            .checkpoint(slot.range, claim: slot.claim.number, text: text)
                        )
                    )
                }
            }
            return withCall(ticket, body)
        }
        return nil
    }

    /// Removes the call that would record a checkpoint, because the checkpoint is too long; the store keeps the
    /// previous one. The round continues as if this checkpoint had been recorded, because otherwise its versions could
    /// not end.
    private mutating func discardCheckpoint(_ round: RoundIndex, now: Moment) {
        precondition(storeQueue.popFirst() == .checkpoint(round), "the next call is the round's")
        handleCheckpointReply(round, nil, now: now)
    }

    /// Removes the next call if its reply is of no use any more: the call reads a page that its round has discarded, or
    /// its round is abandoned. Then frees the page, or the round if it has finished.
    ///
    /// - Returns: whether the call was removed.
    private mutating func removeCallIfUnneeded(_ ticket: AudienceTicket, now: Moment) -> Bool {
        switch ticket {
        case .readPage(let page), .readDirectory(let page):
            guard pages[page].phase == .discarded else { return false }
            precondition(storeQueue.popFirst() == ticket, "the unneeded call is the first in the queue")
            freePageAndOfferRoom(page)
            return true
        // An abandoned round must make no claim and record no checkpoint: another worker may have claimed the range
        // since.
        case .checkpoint(let round), .claim(let round):
            guard rounds[round].phase == .abandoned else { return false }
            precondition(storeQueue.popFirst() == ticket, "the unneeded call is the first in the queue")
            rounds[round].isClaimOrCheckpointOutstanding = false
            freeIfFinished(round, now: now)
            return true
        // These calls are always made.
        case .readSamplePage, .admit, .settle, .finishRange, .finishBroadcast, .removeMember, .notifyAudience,
            .readNewestState:
            return false
        }
    }

    private func makeCall(
        _ ticket: AudienceTicket,
        _ appIndex: UInt16,
        _ audience: AudienceDigest,
        _ operation: AudienceCall<UnsafeRawBufferPointer>.Operation
    ) -> AudienceCall<UnsafeRawBufferPointer> {
        AudienceCall(tag: ticket.tag, app: bundleIds[appIndex], audience: audience, operation: operation)
    }

    private func makeCall(
        _ ticket: AudienceTicket,
        of command: CommandIndex,
        _ operation: AudienceCall<UnsafeRawBufferPointer>.Operation
    ) -> AudienceCall<UnsafeRawBufferPointer> {
        let slot = audiences[commands[command].audience]
        return makeCall(ticket, slot.appIndex, slot.digest, operation)
    }

    private func withCall<Result>(
        _ ticket: AudienceTicket,
        _ body: (AudienceCall<UnsafeRawBufferPointer>) -> Result
    ) -> Result {
        switch ticket {
        case .readSamplePage(let command, let sampleIndex):
            let operation = Operation.readPage(segment: Self.sampledSegments[Int(sampleIndex)], lowerBound: 0)
            return body(makeCall(ticket, of: command, operation))
        case .admit(let command): return body(makeCall(ticket, of: command, .admit(admission(of: command))))
        case .settle(let command):
            return body(makeCall(ticket, of: command, .settle(version: commands[command].version)))
        case .claim(let round):
            let slot = rounds[round]
            let operation = Operation.claim(slot.range, claim: slot.claim.number)
            return body(makeCall(ticket, slot.appIndex, slot.storeKeyDigest, operation))
        case .checkpoint: preconditionFailure("withNextStoreCall makes this call, because it has the checkpoint's text")
        case .finishRange(let rangeVersion):
            let versionSlot = rangeVersions[rangeVersion]
            let slot = rounds[versionSlot.round]
            let operation = Operation.finishRange(
                slot.range,
                version: versionSlot.record.version,
                versionSlot.counts,
                versionSlot.times
            )
            return body(makeCall(ticket, slot.appIndex, slot.digest, operation))
        case .finishBroadcast(let broadcast):
            let key = channels[broadcasts[broadcast].channel].key
            return body(makeCall(ticket, key.appIndex, key.digest, makeFinishOperation(forBroadcast: broadcast)))
        case .readDirectory(let page), .readPage(let page):
            let slot = rounds[pages[page].round]
            let segment = segment(of: page)
            let operation: Operation =
                ticket == .readDirectory(page)
                ? .readDirectory(segment: segment) : .readPage(segment: segment, lowerBound: pages[page].lowerBound)
            return body(makeCall(ticket, slot.appIndex, slot.digest, operation))
        case .removeMember(let refusedMember):
            let slot = refusedMembers[refusedMember]
            return slot.withIdentifierTokenAndReason { identifier, _, _ in
                let entry = MemberEntry(
                    location: MemberLocation(of: identifier),
                    isLeaving: true,
                    kind: slot.kind,
                    environment: slot.environment,
                    allowsFrequentUpdates: false,
                    changedAtMilliseconds: slot.registeredAtWallMilliseconds,
                    identifier: identifier,
                    token: UnsafeRawBufferPointer(start: nil, count: 0)
                )
                return body(makeCall(ticket, slot.appIndex, slot.audience, .append(entry)))
            }
        case .notifyAudience(let change):
            let slot = membershipChanges[change]
            let audience = slot.audiences[slot.notifiedAudienceCount]
            return body(makeCall(ticket, slot.member.appIndex, audience, .append(slot.entryForNextAudience)))
        case .readNewestState(let request):
            let key = newestStateRequests[request].key
            return body(makeCall(ticket, key.appIndex, key.digest, .readNewestState))
        }
    }

    public mutating func removeNextStoreCall() {
        precondition(storeQueue.popFirst() != nil, "no call waits")
    }

    /// Lets the next call wait for up to a second, because its Redis server is unavailable and other servers may work.
    public mutating func delayNextStoreCallForUnavailableServer(now: Moment) {
        guard let ticket = storeQueue.popFirst() else { preconditionFailure("no call waits") }
        storeQueue.setAside(ticket, now: now)
    }

    /// Removes the next call, because it exceeds the store's limits. The core continues as after a permanent refusal
    /// (`handleStoreFailure` with `refused`).
    public mutating func refuseNextStoreCall(now: Moment) {
        guard let ticket = storeQueue.popFirst() else { preconditionFailure("no call waits") }
        handleCallReply(ticket, nil, now: now)
    }

    /// Takes the report that a call has failed. Repeats the call, unless the store has refused it permanently.
    public mutating func handleStoreFailure(tag: UInt64, _ failure: StoreFailure, now: Moment) {
        let ticket = decodeTicket(tag)
        switch failure {
        case .retriableAtOnce: storeQueue.append(ticket)
        case .serverRefusesMostCalls:
            storeQueue.pause(now: now)
            storeQueue.append(ticket)
        case .retriableAfterPause: storeQueue.setAside(ticket, now: now)
        case .refused: handleCallReply(ticket, nil, now: now)
        }
    }

    public mutating func handleStoreReply(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>, now: Moment) {
        handleCallReply(decodeTicket(tag), reply, now: now)
    }

    private func decodeTicket(_ tag: UInt64) -> AudienceTicket {
        guard let ticket = AudienceTicket(tag: tag) else { preconditionFailure("no call of this core has this tag") }
        return ticket
    }

    /// Passes a reply on to the work that waits for it.
    ///
    /// - Parameter reply: nil if the call was refused permanently.
    private mutating func handleCallReply(_ ticket: AudienceTicket, _ reply: Reply?, now: Moment) {
        switch ticket {
        case .readSamplePage(let command, _): handleSamplePage(command, reply?.bytes)
        case .admit(let command):
            guard let reply else {
                return finishCurrentCommand(command, .outcome(.failed), reason: Self.refusedAdmissionReason, now: now)
            }
            handleAdmissionReply(command, reply, now: now)
        case .settle(let command): handleSettledCommand(command, now: now)
        case .claim(let round): handleClaimReply(round, reply, now: now)
        case .checkpoint(let round): handleCheckpointReply(round, reply, now: now)
        case .finishRange(let rangeVersion): handleFinishRangeReply(rangeVersion, reply, now: now)
        case .finishBroadcast(let broadcast): handleFinishBroadcastReply(broadcast, reply, now: now)
        case .readDirectory(let page): handleDirectory(page, reply?.bytes, now: now)
        case .readPage(let page): handlePage(page, reply?.bytes, now: now)
        case .removeMember(let refusedMember):
            if reply != nil { countMembershipChange(.left, of: refusedMembers[refusedMember].appIndex) }
            callOrRecordAcknowledged(about: refusedMember, now: now)
        case .notifyAudience(let change):
            if reply != nil {
                countMembershipChange(
                    membershipChanges[change].changeKindForNextAudience,
                    of: membershipChanges[change].member.appIndex
                )
            }
            handleNotifiedAudience(change, now: now)
        case .readNewestState(let request): handleNewestStateReply(request, reply, now: now)
        }
    }

    /// Counts a change of a member's audiences for the member's app, after the audience has acknowledged the change.
    private mutating func countMembershipChange(_ change: MembershipChangeKind, of appIndex: UInt16) {
        apps[Int(appIndex)].membershipChangeCounts[Int(change.rawValue)] &+= 1
    }

    private static var refusedAdmissionReason: StaticString { "Redis refused the admission" }
}

import Delivery
import LiveActivity

/// A round's way from its claim to its end.
extension Audiences {
    /// The store told where the last owner stood.
    mutating func claimed(_ round: UInt32, _ reply: Reply?, now: Moment) {
        rounds[round].isCallOutstanding = false
        guard rounds[round].phase == .claiming else { return leaveIfOver(round, now: now) }
        noteAdmitted(reply?.newest, of: round, now: now)
        rounds[round].checkpointedMilliseconds = now.monotonicMilliseconds
        rounds[round].phase = .running
        // A store that has lost where the round stood says nothing of it.
        for text in [reply?.bytes, rounds[round].recordedText.bytes] {
            guard let text, !text.isEmpty, let checkpoint = Checkpoint(text) else { continue }
            restore(checkpoint, text, to: round)
            break
        }
        admitReceived(of: round, now: now)
        if rounds.isInUse(round) { awaitNoPassedOver(round, now: now) }
    }

    private mutating func restore(_ checkpoint: Checkpoint, _ text: UnsafeRawBufferPointer, to round: UInt32) {
        rounds[round].watermark = checkpoint.watermark
        rounds[round].sendPosition = checkpoint.watermark
        rounds[round].readPosition = checkpoint.watermark
        rounds[round].lastSettled = checkpoint.lastSettled
        guard let newest = checkpoint.entries.last?.version else { return }
        rounds[round].phase = .awaitingVersions
        rounds[round].restored.newest = newest
        rounds[round].restored.text = HeapBytes(copying: text)
        rounds[round].restored.parked = checkpoint.parked.withUnsafeBytes { HeapBytes(copying: $0) }
    }

    /// What the last owner knew of a version that it had under way, and whose record has not come yet.
    func restoredEntry(of version: Version, in round: UInt32) -> Checkpoint.Entry? {
        restoredEntries(of: round).first { $0.version == version }
    }

    /// What the last owner knew of the versions whose records have not come yet, oldest first.
    private func restoredEntries(of round: UInt32) -> [Checkpoint.Entry] {
        let (newest, text) = (rounds[round].newest, rounds[round].restored.text)
        guard !text.isNone, let checkpoint = Checkpoint(text.bytes) else { return [] }
        if newest != .max { return checkpoint.entries.filter { $0.version > versions[newest].version } }
        // An older one whose alert went on may be open yet, and come first.
        if rounds[round].phase == .awaitingVersions { return checkpoint.entries }
        return checkpoint.entries.filter { $0.version > rounds[round].lastSettled }
    }

    /// From here on all versions have records that came, or begin anew.
    mutating func forgetRestored(_ round: UInt32) {
        rounds[round].restored.text.free()
        rounds[round].restored.text = .none
    }

    /// The store has told the newest version that it has admitted. While its record is missing, nothing older is sent: it may be on its way
    /// under way elsewhere, in ranges of another size.
    mutating func noteAdmitted(_ version: Version?, of round: UInt32, now: Moment) {
        guard let version, version > rounds[round].newestAdmitted else { return }
        rounds[round].newestAdmitted = version
        let newest = rounds[round].newest
        let known =
            newest == .max ? rounds[round].lastSettled : max(versions[newest].version, rounds[round].lastSettled)
        rounds[round].behindSinceMilliseconds = version > known ? now.monotonicMilliseconds : .max
    }

    /// A newer version that was passed over does come, once what is held has made room for it: the older ones go on until then.
    func isBehind(_ round: UInt32) -> Bool {
        rounds[round].behindSinceMilliseconds != .max && rounds[round].passedOverOffset == .max
    }

    /// Does what a round can do now, and arms its timer.
    mutating func moveOn(_ round: UInt32, now: Moment) {
        switch rounds[round].phase {
        case .claiming, .abandoned: break
        case .awaitingVersions: giveUpAwaited(round, now: now)
        case .restoring:
            readParkedAgain(of: round, now: now)
            if rounds[round].phase == .running { return moveOn(round, now: now) }
        case .running:
            expireParked(of: round, now: now)
            expireUnsent(of: round, now: now)
            giveUpOlder(round, now: now)
            readAhead(of: round)
            retirePages(of: round, now: now)
            closeIfEmpty(round)
            if rounds[round].startsDevices {
                handOnStarts(of: round, now: now)
            } else if rounds[round].phase == .running {
                enterLine(round)
            }
        case .lost: claimAgain(round, now: now)
        case .closing, .draining: break
        }
        recordIfDue(round, now: now)
        leaveIfOver(round, now: now)
    }

    /// A newer version was admitted, and its record does not come to this range.
    private mutating func giveUpOlder(_ round: UInt32, now: Moment) {
        guard isBehind(round),
            now.monotonicMilliseconds - rounds[round].behindSinceMilliseconds >= configuration.newerPatienceMilliseconds
        else { return }
        rounds[round].behindSinceMilliseconds = .max
        closeAllEarly(of: round)
        var member = rounds[round].firstParked
        while member != .max {
            let next = parked[member].next
            if !parked[member].isUnderWay { resolve(member, .superseded) }
            member = next
        }
    }

    /// The last owner had a newer version under way, whose record does not come: the fan-out topic got more partitions, the record was read
    /// from another one, and what that one had settled was committed while this one's was not.
    private mutating func giveUpAwaited(_ round: UInt32, now: Moment) {
        let received = partitions.current(rounds[round].partition, epoch: rounds[round].epoch)?.pointee
            .receivedMilliseconds
        let since = max(rounds[round].checkpointedMilliseconds, received ?? .min)
        let end = since + configuration.newerPatienceMilliseconds
        guard end <= now.monotonicMilliseconds else { return wake(round, at: end) }
        closeAllEarly(of: round)
        forgetRestored(round)
        goOn(round, now: now)
    }

    /// Waits for no further versions of the last owner.
    mutating func goOn(_ round: UInt32, now: Moment) {
        rounds[round].phase = rounds[round].restored.nextParked == nil ? .running : .restoring
        moveOn(round, now: now)
    }

    /// What is left of the windows of all versions that came is a newer one's to reach, which has not come yet.
    mutating func closeAllEarly(of round: UInt32) {
        var version = rounds[round].oldest
        while version != .max {
            if versions[version].stage == .underWay { closeEarly(version, of: round) }
            version = versions[version].next
        }
    }

    /// Without a version a round has nothing to send. A record that was settled before may have brought it about.
    private mutating func closeIfEmpty(_ round: UInt32) {
        guard rounds[round].phase == .running, rounds[round].oldest == .max else { return }
        rounds[round].phase = .closing
        discardPages(of: round)
    }

    /// The positions of a round end where its newest version's window does.
    func readEnd(of round: UInt32) -> UInt64 {
        let newest = rounds[round].newest
        return newest == .max ? 0 : versions[newest].end
    }

    // MARK: - Checkpoints

    /// Records where the round stands if that has changed and it is time.
    mutating func recordIfDue(_ round: UInt32, now: Moment) {
        let slot = rounds[round]
        let isFinal = slot.phase == .closing || slot.phase == .draining
        let mayRecord = slot.phase == .running || slot.phase == .restoring || (isFinal && isQuiet(round))
        let isChanged = slot.revision != slot.recordedRevision
        let isAwaited = isFinal || hasCounted(round)
        let due = isAwaited ? now.monotonicMilliseconds : checkpointDue(round)
        if mayRecord, isChanged, !slot.isCallOutstanding, due <= now.monotonicMilliseconds {
            rounds[round].isCallOutstanding = true
            rounds[round].checkpointedMilliseconds = now.monotonicMilliseconds
            storeQueue.append(AudienceTicket(.checkpoint, index: round))
        }
        arm(round, now: now)
    }

    /// All rounds of a lane are recorded at the same times, so that what is said of them leaves together.
    private func checkpointDue(_ round: UInt32) -> Int64 {
        let interval = configuration.checkpointMilliseconds
        return (rounds[round].checkpointedMilliseconds / interval + 1) * interval
    }

    /// Nothing of a round is under way that a last checkpoint would miss.
    func isQuiet(_ round: UInt32) -> Bool { rounds[round].inFlight == 0 && rounds[round].noticeCount == 0 }

    private mutating func arm(_ round: UInt32, now: Moment) {
        let slot = rounds[round]
        guard slot.phase == .running || slot.phase == .restoring else { return }
        var due = Int64.max
        if slot.revision != slot.recordedRevision, !slot.isCallOutstanding {
            due = max(now.monotonicMilliseconds + 1, checkpointDue(round))
        }
        for position in slot.parkedDue.indices where slot.parkedDue[position] > now.monotonicMilliseconds {
            due = min(due, slot.parkedDue[position])
        }
        if isBehind(round) {
            due = min(due, slot.behindSinceMilliseconds + configuration.newerPatienceMilliseconds)
        }
        if slot.newest != .max {
            let wait = (expirySeconds(of: slot.newest) + 1) * 1_000 - now.wallMilliseconds
            if wait > 0 { due = min(due, now.monotonicMilliseconds + wait) }
        }
        wake(round, at: due)
    }

    /// Looks at a round again at a monotonic time, or earlier.
    mutating func wake(_ round: UInt32, at milliseconds: Int64) {
        guard milliseconds < rounds[round].timerMilliseconds else { return }
        rounds[round].timerMilliseconds = milliseconds
        timers.append(TimerQueue.Entry(dueMilliseconds: milliseconds, owner: .round, index: round))
    }

    /// Nil if there is more to say than there is room for: then what was recorded last stays.
    mutating func checkpointText(of round: UInt32) -> [UInt8]? {
        let slot = rounds[round]
        var checkpoint = Checkpoint(watermark: slot.watermark, lastSettled: slot.lastSettled)
        var version = slot.oldest
        while version != .max {
            let under = versions[version]
            var entry = Checkpoint.Entry(
                version: under.version,
                start: min(under.start, slot.watermark),
                counts: under.counts,
                times: under.times
            )
            let isClosedEarly = under.end - under.start != slot.length
            // A closed window does not reach beyond what was handed out, which the next owner hands out once more.
            if isClosedEarly { entry.length = max(entry.start, min(under.end, slot.watermark)) - entry.start }
            if under.stage != .received { checkpoint.entries.append(entry) }
            version = under.next
        }
        checkpoint.entries += restoredEntries(of: round)
        var member = slot.firstParked
        while member != .max {
            checkpoint.parked.append(parked[member].position)
            member = parked[member].next
        }
        var unread = slot.restored
        while let position = unread.nextParked {
            checkpoint.parked.append(position)
            unread.parkedTaken += 1
        }
        checkpoint.parked.sort()
        rounds[round].askedRevision = slot.revision
        // A member may be parked above the watermark: it is not handed out below it again.
        checkpoint.parked.removeAll { $0 >= slot.watermark }
        let text = checkpoint.text()
        rounds[round].askedText.free()
        rounds[round].askedText = text?.withUnsafeBytes { HeapBytes(copying: $0) } ?? .none
        return text
    }

    mutating func checkpointed(_ round: UInt32, _ reply: Reply?, now: Moment) {
        rounds[round].isCallOutstanding = false
        rounds[round].recordedRevision = rounds[round].askedRevision
        counters.checkpoints &+= 1
        noteAdmitted(reply?.newest, of: round, now: now)
        if let verdict = reply?.verdict, verdict == .foreign || verdict == .lost {
            counters.roundsLost &+= 1
            return lose(round, membersAreLost: verdict == .lost, now: now)
        }
        if reply?.verdict == .settled {
            rounds[round].recordedText.free()
            rounds[round].recordedText = rounds[round].askedText
            rounds[round].askedText = .none
        }
        finishRecorded(of: round)
        moveOn(round, now: now)
    }

    // MARK: - The end

    /// Frees a round that has nothing left to do.
    mutating func leaveIfOver(_ round: UInt32, now: Moment) {
        let slot = rounds[round]
        guard !slot.isCallOutstanding, slot.lateCount == 0, isQuiet(round) else { return }
        switch slot.phase {
        case .claiming, .restoring, .running, .lost: return
        // All that came was settled before: where the last owner stood is recorded.
        case .awaitingVersions: guard slot.oldest == .max else { return }
        case .closing: guard slot.revision == slot.recordedRevision, slot.oldest == .max else { return }
        // What is being recorded stays until that is acknowledged, and the last checkpoint names it.
        case .draining: guard slot.revision == slot.recordedRevision, !isFinishing(round) else { return }
        case .abandoned: guard !isFinishing(round) else { return }
        }
        dropVersions(of: round)
        remove(round)
    }

    /// Drops what the next owner reads again.
    private mutating func dropVersions(of round: UInt32) {
        while case let version = rounds[round].oldest, version != .max {
            unlink(version, of: round)
            drop(version)
        }
    }

    private mutating func remove(_ round: UInt32) {
        discardPages(of: round)
        removeParked(of: round)
        removeFromLines(round)
        let key = key(of: round)
        if roundIndex[key] == round { roundIndex[key] = nil }
        rounds[round].freeBytes()
        rounds.free(round)
    }

    private func key(of round: UInt32) -> RoundKey {
        RoundKey(
            application: rounds[round].application,
            digest: rounds[round].digest,
            range: rounds[round].range,
            startsDevices: rounds[round].startsDevices
        )
    }

    /// Its partition is being revoked.
    mutating func drain(_ round: UInt32, now: Moment) {
        switch rounds[round].phase {
        case .claiming, .awaitingVersions:
            // Nothing was sent, and what the last owner recorded stays as it is.
            rounds[round].recordedRevision = rounds[round].revision
            rounds[round].phase = .draining
        case .restoring, .running:
            rounds[round].phase = .draining
            truncatePages(of: round)
            offerFreePages(Int(rounds[round].application))
            retirePages(of: round, now: now)
        case .lost: return abandon(round, now: now)
        case .closing, .draining, .abandoned: break
        }
        moveOn(round, now: now)
    }

    /// What is on its way gets its answers, and nothing is recorded of them.
    mutating func abandon(_ round: UInt32, now: Moment) {
        guard rounds[round].phase != .abandoned else { return leaveIfOver(round, now: now) }
        rounds[round].phase = .abandoned
        let key = key(of: round)
        if roundIndex[key] == round { roundIndex[key] = nil }
        discardPages(of: round)
        leaveIfOver(round, now: now)
    }
}

import ActivityStore
import LiveActivity
import Redis

/// Restores the newest commands of audiences.
extension ReplayRebuilder {
    /// Writes the commands to audiences to Redis, except those that Redis knows already.
    mutating func rebuild(ofAudiences entries: [(key: [UInt8], value: NewestCommandTable.Entry)]) throws {
        var newAudienceCalls: [AudienceRebuildCalls] = []
        guard !entries.isEmpty else { return }
        for ((key, entry), fields) in zip(entries, try queries.readHashes(entries.map(\.key))) {
            if entry.start != nil { count(.startsPassedOver) }
            guard let candidate = entry.state else { continue }
            let inspection = try AudienceInspection(fields: fields)
            if candidate.isUnread {
                count(.statesUnread)
            } else if candidate.value.isEmpty {
                count(.statesNotLookedAt)
            } else if let newest = inspection.newestVersion?.version, newest >= candidate.version {
                count(.audiencesKnown)
            } else if inspection.admittedVersion?.isEnd ?? false {
                count(.audiencesKnown)
            } else if let calls = AudienceRebuildCalls(
                candidate,
                redisKey: key,
                appIndex: entry.appIndex,
                scope: scope
            ) {
                newAudienceCalls.append(calls)
            } else {
                count(.statesTooOld)
            }
        }
        try write(newAudienceCalls)
    }

    /// Makes the calls. If a worker has admitted a command after the replay read Redis, leaves the command to the
    /// workers. Without a store, only counts the audiences.
    mutating func write(_ audienceCalls: [AudienceRebuildCalls]) throws {
        guard let store else { return count(.audiencesWritten, audienceCalls.count) }
        guard !audienceCalls.isEmpty else { return }
        waitForRateLimit(writing: audienceCalls.count)
        let replies = try store.perform(audienceCalls.map(\.admissionCall), until: isCancelled)
        let fieldsAfterAdmission = try queries.readHashes(audienceCalls.map(\.redisKey))
        var admittedCalls: [AudienceRebuildCalls] = []
        var finishCalls: [AudienceCall<[UInt8]>] = []
        for ((calls, reply), fields) in zip(zip(audienceCalls, replies), fieldsAfterAdmission) {
            // Redis refuses the command if it is settled, or if a worker has admitted a newer one.
            guard reply.verdict == .send, try calls.mustFinish(in: AudienceInspection(fields: fields)) else {
                count(.audiencesKnown)
                continue
            }
            admittedCalls.append(calls)
            finishCalls += calls.makeFinishCalls(reply)
        }
        _ = try store.perform(admittedCalls.map(\.settlementCall), until: isCancelled)
        _ = try store.perform(finishCalls, until: isCancelled)
        count(.audiencesWritten, admittedCalls.count)
    }
}

import ActivityStore
import LiveActivity
import Redis

/// Restores the newest commands of audiences.
extension ReplayRebuilder {
    /// Writes the commands to audiences to Redis, except those that Redis knows already.
    mutating func rebuild(ofAudiences entries: [(key: [UInt8], value: NewestCommandTable.Entry)]) throws {
        var newAudienceCalls: [AudienceRebuildCalls] = []
        guard !entries.isEmpty else { return }
        for ((_, entry), fields) in zip(entries, try queries.readHashes(entries.map(\.key))) {
            if entry.start != nil { count(.startsSkipped) }
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
            } else if let calls = AudienceRebuildCalls(candidate, appIndex: entry.appIndex, scope: scope) {
                newAudienceCalls.append(calls)
            } else {
                count(.statesTooOld)
            }
        }
        try write(newAudienceCalls)
    }

    private mutating func write(_ audienceCalls: [AudienceRebuildCalls]) throws {
        guard let store else { return count(.audiencesWritten, audienceCalls.count) }
        guard !audienceCalls.isEmpty else { return }
        waitForRateLimit(writing: audienceCalls.count)
        var admittedCalls: [AudienceRebuildCalls] = []
        for (calls, reply) in zip(
            audienceCalls,
            try store.perform(audienceCalls.map(\.admissionCall), until: isCancelled)
        ) {
            // Redis refuses the command if a worker has admitted it, or a newer one, since the replay read Redis.
            if reply.verdict == .send { admittedCalls.append(calls) } else { count(.audiencesKnown) }
        }
        _ = try store.perform(admittedCalls.map(\.settlementCall), until: isCancelled)
        _ = try store.perform(admittedCalls.map(\.finishRangeCall), until: isCancelled)
        count(.audiencesWritten, admittedCalls.count)
    }
}

import ActivityStore
import LiveActivity
import Redis

/// Restores the newest commands of audiences.
extension ReplayRebuilding {
    /// Writes the commands that Redis does not know.
    mutating func rebuild(ofAudiences entries: [(key: [UInt8], value: ReplayTable.Entry)]) throws {
        var rebuiltAudiences: [RebuiltAudience] = []
        guard !entries.isEmpty else { return }
        for ((_, entry), fields) in zip(entries, try queries.hashes(entries.map(\.key))) {
            if entry.start != nil { count(.startsPassedOver) }
            guard let candidate = entry.state else { continue }
            let inspection = try AudienceInspection(fields: fields)
            if candidate.isUnread {
                count(.statesUnread)
            } else if candidate.value.isEmpty {
                count(.statesNotLookedAt)
            } else if let newest = inspection.newest?.version, newest >= candidate.version {
                count(.audiencesKnown)
            } else if inspection.admitted?.isEnd ?? false {
                count(.audiencesKnown)
            } else if let audience = RebuiltAudience(candidate, appIndex: entry.appIndex, scope: scope) {
                rebuiltAudiences.append(audience)
            } else {
                count(.statesTooOld)
            }
        }
        try write(rebuiltAudiences)
    }

    private mutating func write(_ audiences: [RebuiltAudience]) throws {
        guard let store else { return count(.audiencesWritten, audiences.count) }
        guard !audiences.isEmpty else { return }
        waitForTurn(writing: audiences.count)
        var admittedAudiences: [RebuiltAudience] = []
        for (audience, reply) in zip(audiences, try store.perform(audiences.map(\.admissionCall), until: isCancelled)) {
            // Redis refuses the command if a worker has admitted it, or a newer one, since the replay read
            // Redis.
            if reply.verdict == .send { admittedAudiences.append(audience) } else { count(.audiencesKnown) }
        }
        _ = try store.perform(admittedAudiences.map(\.settlementCall), until: isCancelled)
        _ = try store.perform(admittedAudiences.map(\.finishCall), until: isCancelled)
        count(.audiencesWritten, admittedAudiences.count)
    }
}

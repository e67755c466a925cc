import ActivityStore
import LiveActivity
import Redis

/// Restores the newest commands of audiences.
extension ReplayRebuilding {
    /// Writes the commands that Redis does not know.
    mutating func rebuild(ofAudiences entries: [(key: [UInt8], value: ReplayTable.Entry)]) throws {
        var found: [RebuiltAudience] = []
        guard !entries.isEmpty else { return }
        for ((_, entry), fields) in zip(entries, try queries.hashes(entries.map(\.key))) {
            if entry.start != nil { count(.startsPassedOver) }
            guard let candidate = entry.state else { continue }
            let known = try AudienceInspection(fields: fields)
            if candidate.isUnread {
                count(.statesUnread)
            } else if candidate.value.isEmpty {
                count(.statesNotLookedAt)
            } else if let newest = known.newest?.version, newest >= candidate.version {
                count(.audiencesKnown)
            } else if known.admitted?.isEnd ?? false {
                count(.audiencesKnown)
            } else if let audience = RebuiltAudience(candidate, app: entry.app, scope: scope) {
                found.append(audience)
            } else {
                count(.statesTooOld)
            }
        }
        try write(found)
    }

    private mutating func write(_ audiences: [RebuiltAudience]) throws {
        guard let store else { return count(.audiencesWritten, audiences.count) }
        guard !audiences.isEmpty else { return }
        waitForTurn(writing: audiences.count)
        var next: [RebuiltAudience] = []
        for (audience, reply) in zip(audiences, try store.perform(audiences.map(\.admission), until: isCancelled)) {
            // Redis refuses the command if a worker has admitted it, or a newer one, since the replay read
            // Redis.
            if reply.verdict == .send { next.append(audience) } else { count(.audiencesKnown) }
        }
        _ = try store.perform(next.map(\.settlement), until: isCancelled)
        _ = try store.perform(next.map(\.finish), until: isCancelled)
        count(.audiencesWritten, next.count)
    }
}

import ActivityStore
import CausewayCommandLine
import LiveActivity
import Redis

/// The decision about one command. An activity or audience that has a start and a newer state has two decisions, one
/// about each.
struct ReplayDecision {
    var appIndex: Int
    /// The activity's or audience's key in Redis.
    var redisKey: [UInt8]
    var candidate: ReplayCandidate
    var verdict: ReplayVerdict
}

/// Reads the activities and audiences of a ``NewestCommandTable`` from Redis in batches, and lets a ``ReplayDecider``
/// decide about their commands.
struct ReplayDecisions {
    /// The number of activities and audiences in one batch.
    static let entriesPerBatch = 512

    let scope: ReplayScope
    let queries: RedisQueries
    var includesStarts: Bool

    /// Passes the decisions to `body`. Activities and audiences come in the order of Kafka's timestamps of their first
    /// commands in the table. If an activity or audience has a start and a state, the decision about the start comes
    /// directly before the decision about the state.
    ///
    /// - Parameter body: returns false to stop.
    /// - Returns: false if `body` has stopped the loop.
    func forEach(of table: NewestCommandTable, _ body: (ReplayDecision) throws -> Bool) throws -> Bool {
        let sortedEntries = table.entries.sorted { Self.sortKey(of: $0.value) < Self.sortKey(of: $1.value) }
        for start in stride(from: 0, to: sortedEntries.count, by: Self.entriesPerBatch) {
            let batch = sortedEntries[start..<min(start + Self.entriesPerBatch, sortedEntries.count)]
            let (audiences, activities) = (batch.filter(\.value.isOfAudience), batch.filter { !$0.value.isOfAudience })
            let fieldsByAudience = try Self.fetchByKey(audiences.map(\.key)) { try queries.readHashes($0) }
            let valuesByActivity = try Self.fetchByKey(activities.map(\.key)) { try queries.readStrings($0) }
            let redisNowMilliseconds = try queries.readServerWallMilliseconds(for: batch.first?.key)
            let decider = ReplayDecider(
                nowMilliseconds: Clock.wallMilliseconds,
                redisNowMilliseconds: redisNowMilliseconds,
                includesStarts: includesStarts,
                restartsActivities: scope.restartsActivities
            )
            for (key, entry) in batch {
                let entryDecisions =
                    entry.isOfAudience
                    ? try decisions(on: entry, ofAudience: key, fieldsByAudience[key] ?? [], decider)
                    : try decisions(on: entry, of: key, valuesByActivity[key] ?? [], decider)
                for decision in entryDecisions {
                    guard try body(decision) else { return false }
                }
            }
        }
        return true
    }

    private static func fetchByKey<Value>(
        _ keys: [[UInt8]],
        _ fetch: ([[UInt8]]) throws -> [Value]
    ) rethrows -> [[UInt8]: Value] {
        keys.isEmpty ? [:] : Dictionary(uniqueKeysWithValues: zip(keys, try fetch(keys)))
    }

    private static func sortKey(of entry: NewestCommandTable.Entry) -> (Int64, Int32, Int64) {
        let firstCandidate = entry.start ?? entry.state
        return (firstCandidate?.timestampMilliseconds ?? 0, firstCandidate?.partition ?? 0, firstCandidate?.offset ?? 0)
    }

    /// Decides about the commands to an activity. `activity` is the activity's key in Redis, and `value` is the value
    /// of this key.
    private func decisions(
        on entry: NewestCommandTable.Entry,
        of activity: [UInt8],
        _ value: [UInt8],
        _ decider: ReplayDecider
    ) throws -> [ReplayDecision] {
        let activityState = ActivityState(try ActivityInspection(value: value))
        var decisions: [ReplayDecision] = []
        func decide(_ candidate: ReplayCandidate, _ verdict: ReplayVerdict) {
            decisions.append(
                ReplayDecision(appIndex: entry.appIndex, redisKey: activity, candidate: candidate, verdict: verdict)
            )
        }
        for candidate in [entry.start, entry.state].compactMap(\.self) {
            if candidate.isUnread {
                decide(candidate, ReplayVerdict(reason: .unread))
                continue
            }
            let followsStart = decisions.last?.verdict.reason.leadsToSending ?? false
            let verdict = try candidate.value.withUnsafeBytes { record -> ReplayVerdict in
                guard let command = try? Command.decode(record),
                    let policy = scope.policy(of: command, appIndex: entry.appIndex, in: record)
                else { return ReplayVerdict(reason: .tableFull) }
                guard command.event == .start else {
                    return decider.verdict(
                        on: command,
                        of: record,
                        recordTimestampMilliseconds: candidate.timestampMilliseconds,
                        policy: policy,
                        activity: activityState,
                        followsStart: followsStart
                    )
                }
                let hasToken = try includesStarts && hasStartToken(command, of: record, appIndex: entry.appIndex)
                let reason = decider.startReason(
                    for: command,
                    policy: policy,
                    activity: activityState,
                    hasToken: hasToken
                )
                return ReplayVerdict(reason: reason)
            }
            decide(candidate, verdict)
        }
        return decisions
    }

    /// Decides about the commands to an audience. `fields` are those of the audience's hash in Redis.
    private func decisions(
        on entry: NewestCommandTable.Entry,
        ofAudience key: [UInt8],
        _ fields: RedisQueries.HashFields,
        _ decider: ReplayDecider
    ) throws -> [ReplayDecision] {
        let inspection = try AudienceInspection(fields: fields)
        return [entry.start, entry.state].compactMap(\.self)
            .map { candidate in
                let verdict = candidate.value.withUnsafeBytes { record -> ReplayVerdict in
                    if candidate.isUnread { return ReplayVerdict(reason: .unread) }
                    guard let command = try? Command.decode(record),
                        let policy = scope.policy(of: command, appIndex: entry.appIndex, in: record)
                    else { return ReplayVerdict(reason: .tableFull) }
                    return decider.verdict(onAudienceCommand: command, of: record, policy: policy, audience: inspection)
                }
                return ReplayDecision(appIndex: entry.appIndex, redisKey: key, candidate: candidate, verdict: verdict)
            }
    }

    /// Whether a push-to-start token is known for the start: in the command itself, or of its device in Redis.
    private func hasStartToken(_ command: Command, of record: UnsafeRawBufferPointer, appIndex: Int) throws -> Bool {
        if !command.token.isAbsent { return true }
        let fields = try queries.readHash(scope.apps[appIndex].deviceKey(command.device.text(in: record)))
        let type = command.attributesType.text(in: record)
        return try DeviceInspection(fields: fields).attributesTypeStates
            .contains { $0.attributesType == type && $0.token != nil }
    }
}

import ActivityStore
import CausewayCommandLine
import Delivery
import LiveActivity
import Redis

/// Writes the data that Redis has lost, and sends nothing.
///
/// It restores tokens, the members of audiences, and the newest command of each activity and audience. It records these
/// commands as sent; a command to an activity without a token is held. Redis does not learn what an activity shows. So
/// the next state is sent even if the activity already shows it.
///
/// Without a store (without `--execute`), this type only counts what it would write, and the model of the scripts
/// decides instead of Redis. It then also counts registrations that Redis already knows.
struct ReplayRebuilder {
    /// The maximum number of registrations, or of newest commands, that are written at the same time.
    static let writesPerBatchMax = 256

    let scope: ReplayScope
    let store: BlockingStore?
    let queries: RedisQueries
    private var rateLimit: RecordRateLimit
    /// Returns whether the user has stopped the replay. If so, every wait ends soon.
    let isCancelled: () -> Bool
    private let startedAtMilliseconds = Clock.monotonicMilliseconds
    private var writtenCallCount = 0
    private(set) var tally = RebuildTally()
    /// The calls of the next batch. No two concern the same activity or device, because Redis may carry out a batch in
    /// any order.
    private var collectedCalls: [StoreCall<[UInt8]>] = []
    private var collectedSubjects: Set<[UInt8]> = []
    /// The token of each tracked activity (``trackTokens(of:)``), by the activity's key in Redis. Empty with
    /// `--execute`, because Redis then knows the tokens.
    private var registrationsByActivity: [[UInt8]: TrackedRegistration] = [:]

    /// What is known about the newest token of an activity, and when a record of this token was first written.
    private enum TrackedRegistration {
        case absent
        case registered(TokenRegistration<[UInt8]>, writtenAtWallMilliseconds: Int64)
    }

    /// - Parameters:
    ///   - callsPerSecond: the maximum number of calls a second; nil: as fast as Redis takes them.
    ///   - isCancelled: returns true when the user has stopped the replay. Then every wait ends soon.
    init(
        scope: ReplayScope,
        queries: RedisQueries,
        store: BlockingStore?,
        callsPerSecond: Double?,
        isCancelled: @escaping () -> Bool
    ) {
        self.scope = scope
        self.queries = queries
        self.store = store
        self.isCancelled = isCancelled
        rateLimit = RecordRateLimit(recordsPerSecond: callsPerSecond)
    }

    /// Sets the activities to track: from now on, ``flush()`` notes which of them have a token. Without `--execute`,
    /// the decisions about their commands need this, because Redis does not get the tokens.
    mutating func trackTokens(of activities: some Collection<[UInt8]>) {
        registrationsByActivity = Dictionary(uniqueKeysWithValues: activities.map { ($0, TrackedRegistration.absent) })
    }

    // MARK: - Rebuilding from registrations

    /// Collects the call for one record of the registrations topic, or the calls for a tombstone. Only counts a record
    /// that is invalid or too old. Ignores a record that the options exclude. ``collect(_:)`` may first make the calls
    /// of the batch.
    mutating func collectRegistration(
        _ value: UnsafeRawBufferPointer?,
        key: UnsafeRawBufferPointer?,
        recordTimestampMilliseconds: Int64
    ) throws {
        guard let value else {
            return try collectUnregistration(key, recordTimestampMilliseconds: recordTimestampMilliseconds)
        }
        guard var registration = try? Registration.decode(value),
            let appIndex = scope.appIndex(registration.app, in: value)
        else {
            return tally.count(.registrationsInvalid)
        }
        let hasTimestamp = recordTimestampMilliseconds >= 0
        registration.limitTimes(
            ofRecordWrittenAtMilliseconds: hasTimestamp ? recordTimestampMilliseconds : Clock.wallMilliseconds
        )
        let writtenAtWallMilliseconds = max(registration.registeredAtMilliseconds, recordTimestampMilliseconds)
        guard
            let call = registrationCall(
                for: registration,
                appIndex: appIndex,
                writtenAtWallMilliseconds: writtenAtWallMilliseconds,
                in: value
            )
        else { return }
        let isExpired = AgeRules.isRegistrationExpired(
            registeredAtWallMilliseconds: writtenAtWallMilliseconds,
            isPushToStart: call.subject.kind == .device,
            nowWallMilliseconds: Clock.wallMilliseconds
        )
        if isExpired { tally.count(.registrationsOver) } else { try collect(call) }
    }

    /// Makes the call for a registration. Returns nil if the options exclude its app or activity. With `--activity`,
    /// push-to-start tokens are excluded.
    private func registrationCall(
        for registration: Registration,
        appIndex: Int,
        writtenAtWallMilliseconds: Int64,
        in record: UnsafeRawBufferPointer
    ) -> StoreCall<[UInt8]>? {
        let name = scope.apps[appIndex].bundleId
        guard scope.includes(app: name) else { return nil }
        func tokenRegistration(_ text: TextRange) -> TokenRegistration<[UInt8]> {
            TokenRegistration(
                token: text.bytes(in: record),
                environment: registration.environment,
                registeredAtMilliseconds: registration.registeredAtMilliseconds
            )
        }
        func digests(of audiences: ByteRange, count: Int) -> [UInt8] {
            [UInt8](unsafeUninitializedCapacity: count * AudienceList.digestBytes) { buffer, writtenBytes in
                let buffer = UnsafeMutableRawBufferPointer(buffer)
                writtenBytes = Registration.writeDigests(of: audiences, in: record, into: buffer)
            }
        }
        func makeCall(
            _ kind: StoreSubjectKind,
            _ text: TextRange,
            _ operation: StoreCall<[UInt8]>.Operation
        ) -> StoreCall<[UInt8]> {
            let subject = StoreSubject(app: Array(name.utf8), kind: kind, identifier: text.bytes(in: record))
            return StoreCall(tag: 0, subject: subject, operation: operation)
        }
        switch registration.kind {
        case .activity(let activity):
            guard scope.includes(activity.activity.bytes(in: record)) else { return nil }
            return makeCall(
                .activity,
                activity.activity,
                .register(
                    tokenRegistration(activity.token),
                    allowsFrequentUpdates: activity.allowsFrequentUpdates,
                    shownVersion: activity.shownVersion,
                    // With 0, Redis keeps the alerts that it holds, because workers may still have to send them.
                    source: .reread(
                        alertsReleasedUntilMilliseconds: 0,
                        writtenAtMilliseconds: writtenAtWallMilliseconds
                    ),
                    audiences: digests(of: activity.audiences, count: activity.audienceCount)
                )
            )
        case .pushToStart(let start):
            guard scope.onlyActivity == nil else { return nil }
            let type = start.attributesType.bytes(in: record)
            return makeCall(
                .device,
                start.device,
                .registerDevice(
                    attributesType: type,
                    tokenRegistration(start.token),
                    .registerToken(
                        audiences: digests(of: start.audiences, count: start.audienceCount),
                        supportsChannels: start.supportsChannels
                    ),
                    isFromCommand: false
                )
            )
        }
    }

    /// Collects the calls for a tombstone. Its key is the id of an activity or a device, or names an attributes type of
    /// a device (`DeviceRegistrationKey`), and does not name the app. So there are up to three calls for each app that
    /// the options include. A call is left out if the tombstone is older than a token of its kind can be (`AgeRules`).
    private mutating func collectUnregistration(_ key: UnsafeRawBufferPointer?, recordTimestampMilliseconds: Int64)
        throws
    {
        var tokenHolders: [(kind: StoreSubjectKind, identifier: [UInt8], attributesType: [UInt8]?)] = []
        if let key, (1...Limits.identifierBytesMax).contains(key.count) {
            tokenHolders.append((.activity, Array(key), nil))
            tokenHolders.append((.device, Array(key), nil))
        }
        if let key, let parts = DeviceRegistrationKey.split(key) {
            tokenHolders.append((.device, Array(parts.device), Array(parts.attributesType)))
        }
        guard let key, !tokenHolders.isEmpty else { return tally.count(.registrationsInvalid) }
        guard scope.includes(Array(key)) else { return }
        tokenHolders.removeAll { holder in
            AgeRules.isRegistrationExpired(
                registeredAtWallMilliseconds: recordTimestampMilliseconds,
                isPushToStart: holder.kind == .device,
                nowWallMilliseconds: Clock.wallMilliseconds
            )
        }
        guard !tokenHolders.isEmpty else { return tally.count(.registrationsOver) }
        let atWallMilliseconds = max(0, recordTimestampMilliseconds)
        for app in scope.apps where scope.includes(app: app.bundleId) {
            for (kind, identifier, type) in tokenHolders {
                try collect(
                    StoreCall(
                        tag: 0,
                        subject: StoreSubject(app: Array(app.bundleId.utf8), kind: kind, identifier: identifier),
                        operation: .unregister(atMilliseconds: atWallMilliseconds, attributesType: type)
                    )
                )
            }
        }
        tally.count(.unregistered)
    }

    /// Collects a call. If the batch is full, or has a call about the same activity or device, makes the batch's calls
    /// first.
    private mutating func collect(_ call: StoreCall<[UInt8]>) throws {
        let subject = call.subject.app + [call.subject.kind.rawValue] + call.subject.identifier
        if collectedCalls.count == Self.writesPerBatchMax || collectedSubjects.contains(subject) { try flush() }
        collectedCalls.append(call)
        collectedSubjects.insert(subject)
    }

    /// Makes the collected calls. Without a store (without `--execute`), only counts them, and remembers which
    /// activities have tokens.
    mutating func flush() throws {
        defer {
            collectedCalls.removeAll(keepingCapacity: true)
            collectedSubjects.removeAll(keepingCapacity: true)
        }
        guard let store else {
            for call in collectedCalls { countAndNoteToken(of: call) }
            return
        }
        waitForRateLimit(writing: collectedCalls.count)
        if collectedCalls.isEmpty { return }
        for (call, reply) in zip(collectedCalls, try perform(collectedCalls, on: store))
        where !call.operation.isUnregistration {
            tally.count(reply.verdict == .stale ? .registrationsStale : .registrationsWritten)
            if reply.heldCommand != nil { tally.count(.heldWithToken) }
        }
    }

    /// Makes the calls and returns the replies. If a call lets an activity or device join or leave audiences, also
    /// writes this to the audiences.
    ///
    /// As long as a member's departure is not confirmed, Redis returns no held command and admits no command of the
    /// member. So this method
    /// 1. writes an entry about the departure into the audience's page,
    /// 2. confirms this to Redis, and
    /// 3. makes the member's call again.
    private mutating func perform(
        _ calls: [StoreCall<[UInt8]>],
        on store: BlockingStore
    ) throws -> [StoreReply<[UInt8]>] {
        var replies = try store.perform(calls, until: isCancelled)
        // The reply to a batch may have no room for the held command of a call. Make such a call again, alone.
        for index in replies.indices where replies[index].verdict == .full {
            replies[index] = try store.perform([calls[index]], until: isCancelled)[0]
        }
        guard !replies.contains(where: { $0.verdict == .full }) else {
            throw RedisError(
                .busy,
                "an activity has left more audiences than one call can update; run the command again later"
            )
        }
        let changesByCall = zip(calls, replies).map { MembershipRebuildCalls($0, $1) }
        let changes = changesByCall.compactMap(\.self)
        guard !changes.isEmpty else { return replies }
        _ = try store.perform(changes.flatMap(\.entryCalls), until: isCancelled)
        _ = try store.perform(changes.compactMap(\.departureConfirmationCall), until: isCancelled)
        for change in changes {
            tally.count(.membersJoined, change.joinCount)
            tally.count(.membersLeft, change.leaveCount)
        }
        let repeatedIndices = calls.indices.filter { index in
            changesByCall[index]?.departureConfirmationCall != nil
                && [.registered, .departures].contains(replies[index].verdict)
        }
        for (index, reply) in zip(
            repeatedIndices,
            try store.perform(repeatedIndices.map { calls[$0] }, until: isCancelled)
        ) {
            replies[index] = reply
        }
        return replies
    }

    /// Counts what a call would write, and notes whether a tracked activity then has a token. Called only without a
    /// store (without `--execute`).
    private mutating func countAndNoteToken(of call: StoreCall<[UInt8]>) {
        if !call.operation.isUnregistration { tally.count(.registrationsWritten) }
        if let member = JoiningMember(call.operation) { tally.count(.membersJoined, member.audiences.count) }
        guard call.subject.kind == .activity else { return }
        let activity = ActivityKey.key(app: call.subject.app, activity: call.subject.identifier)
        guard let knownRegistration = registrationsByActivity[activity] else { return }
        switch (call.operation, knownRegistration) {
        case (.register(let token, _, _, .reread(_, let milliseconds), _), .absent):
            registrationsByActivity[activity] = .registered(token, writtenAtWallMilliseconds: milliseconds)
        case (
            .register(let token, _, _, .reread(_, let milliseconds), _), .registered(let known, let knownMilliseconds)
        )
        where known.registeredAtMilliseconds <= token.registeredAtMilliseconds:
            registrationsByActivity[activity] = .registered(
                token,
                writtenAtWallMilliseconds: token.token == known.token ? knownMilliseconds : milliseconds
            )
        case (.unregister(let milliseconds, _), .registered(let known, _))
        where max(known.registeredAtMilliseconds, 0) <= milliseconds:
            registrationsByActivity[activity] = .absent
        default: break
        }
    }

    /// Waits until the rate allows another call, or the user stops the replay. Then counts `count` calls as made.
    mutating func waitForRateLimit(writing count: Int) {
        defer { writtenCallCount += count }
        while !isCancelled() {
            let elapsedSeconds = Double(Clock.monotonicMilliseconds - startedAtMilliseconds) / 1_000
            let seconds = rateLimit.takeWaitSeconds(sentCount: writtenCallCount, elapsedSeconds: elapsedSeconds)
            if seconds == 0 { return }
            rateLimit.sleepBriefly(atMostSeconds: seconds)
        }
    }

    mutating func count(_ counter: RebuildTally.Counter, _ addedCount: Int = 1) { tally.count(counter, addedCount) }

    // MARK: - Rebuilding the newest states

    /// Writes the newest commands of some activities and audiences to Redis. Leaves out a command that Redis knows,
    /// because a worker may still send it.
    mutating func rebuild(_ entries: some Collection<(key: [UInt8], value: NewestCommandTable.Entry)>) throws {
        try rebuild(ofAudiences: entries.filter(\.value.isOfAudience))
        try rebuild(ofActivities: entries.filter { !$0.value.isOfAudience })
    }

    /// Writes the newest states of activities to Redis. Starts are only counted.
    private mutating func rebuild(ofActivities entries: [(key: [UInt8], value: NewestCommandTable.Entry)]) throws {
        var missingStates: [(calls: ActivityRebuildCalls, inspection: ActivityInspection, activity: [UInt8])] = []
        for ((activity, entry), value) in zip(entries, try queries.readStrings(entries.map(\.key))) {
            if entry.start != nil { tally.count(.startsPassedOver) }
            guard let candidate = entry.state else { continue }
            let inspection = try ActivityInspection(value: value)
            if candidate.isUnread {
                tally.count(.statesUnread)
            } else if candidate.value.isEmpty {
                tally.count(.statesNotLookedAt)
            } else if let newest = inspection.newestVersion?.version, newest >= candidate.version {
                tally.count(.statesKnown)
            } else if let calls = ActivityRebuildCalls(candidate, activity, appIndex: entry.appIndex, scope: scope) {
                missingStates.append((calls, inspection, activity))
            } else {
                tally.count(.statesTooOld)
            }
        }
        guard let store else { return try countExpectedDecisions(missingStates) }
        waitForRateLimit(writing: missingStates.count)
        if !missingStates.isEmpty { try admit(missingStates.map(\.calls), store) }
    }

    /// Counts the commands to activities by what Redis would decide about them. Called instead of ``admit(_:_:)`` if
    /// there is no store.
    private mutating func countExpectedDecisions(
        _ missingStates: [(calls: ActivityRebuildCalls, inspection: ActivityInspection, activity: [UInt8])]
    ) throws {
        guard let first = missingStates.first else { return }
        let nowWallMilliseconds = try queries.readServerWallMilliseconds(for: first.activity)
        for (calls, inspection, activity) in missingStates {
            guard case .admit(var admission) = calls.admissionCall.operation else { continue }
            if case .registered(var registration, let writtenAtWallMilliseconds)? = registrationsByActivity[activity] {
                // The model begins the activity's eight hours at this time, as Redis would.
                registration.registeredAtMilliseconds = writtenAtWallMilliseconds
                admission.registration = registration
            }
            let verdict = ActivityState(inspection).verdict(on: admission, nowMilliseconds: nowWallMilliseconds)
            tally.count(verdict.forReplay.counter)
        }
    }

    /// Lets Redis admit the commands. Then records the admitted ones as sent, and lets Redis hold those without a
    /// token.
    private mutating func admit(_ rebuildCalls: [ActivityRebuildCalls], _ store: BlockingStore) throws {
        var followUpCalls: [StoreCall<[UInt8]>] = []
        for (calls, reply) in zip(rebuildCalls, try perform(rebuildCalls.map(\.admissionCall), on: store)) {
            // The conversion never fails: `AdmissionVerdict` has all verdicts that an admission can get.
            let counter = AdmissionVerdict(reply.verdict)?.forReplay.counter ?? .statesKnown
            if counter == .statesWritten { followUpCalls.append(calls.settlementCall) }
            if counter == .statesHeld { followUpCalls.append(calls.holdCall) }
            tally.count(counter)
        }
        // An end also removes its activity from audiences. `perform` writes this to the audiences.
        if !followUpCalls.isEmpty { _ = try perform(followUpCalls, on: store) }
    }
}

extension StoreCall<[UInt8]>.Operation {
    fileprivate var isUnregistration: Bool { if case .unregister = self { true } else { false } }
}

import ActivityStore
import CausewayCommandLine
import Delivery
import LiveActivity
import Redis

/// Tells Redis what it has forgotten, and sends nothing: tokens and members of audiences, and of each activity and audience the newest command
/// as one that was sent. What is shown is left unknown, so that no later state counts as unchanged.
///
/// Without a store it only counts, by what the scripts' model answers; whether a device's token, or an activity's that no command is in the
/// range of, is known already, it does not ask.
struct ReplayRebuilding {
    /// Calls that are made at a time.
    static let batch = 256

    let scope: ReplayScope
    let store: BlockingStore?
    let queries: RedisQueries
    private let rate: RecordRate
    /// Ends a wait for the rate.
    let isOver: () -> Bool
    private let beganMilliseconds = Clock.milliseconds
    private var written = 0
    private(set) var tally = RebuildTally()
    /// Of subjects that are all different.
    private var calls: [StoreCall<[UInt8]>] = []
    private var subjects: Set<[UInt8]> = []
    /// Without a store: the activities of the range, by their keys in Redis, with when the token that Redis would be told of was registered.
    private var registeredAtMilliseconds: [[UInt8]: Int64?] = [:]

    /// - Parameters:
    ///   - rate: calls a second; nil: as fast as Redis takes them.
    ///   - isOver: ends every wait.
    init(
        scope: ReplayScope,
        queries: RedisQueries,
        store: BlockingStore?,
        rate: Double?,
        isOver: @escaping () -> Bool
    ) {
        self.scope = scope
        self.queries = queries
        self.store = store
        self.isOver = isOver
        self.rate = RecordRate(perSecond: rate)
    }

    /// Without a store: of these activities the tokens are remembered, since they decide what comes of the commands.
    mutating func lookFor(_ activities: some Collection<[UInt8]>) {
        registeredAtMilliseconds = Dictionary(uniqueKeysWithValues: activities.map { ($0, nil) })
    }

    // MARK: - Registrations

    /// Takes one record of the registrations topic.
    mutating func register(
        _ value: UnsafeRawBufferPointer?,
        key: UnsafeRawBufferPointer?,
        recordMilliseconds: Int64
    ) throws {
        guard let value else { return try unregister(key, recordMilliseconds: recordMilliseconds) }
        guard let registration = try? Registration.decode(value), let app = scope.app(registration.app, in: value)
        else {
            return tally.count(.registrationsInvalid)
        }
        guard let call = call(for: registration, app: app, in: value) else { return }
        let isOver = AgeRules.isRegistrationOver(
            registeredAtMilliseconds: registration.registeredAtMilliseconds,
            isPushToStart: call.subject.kind == .device,
            nowMilliseconds: Clock.wallMilliseconds
        )
        if isOver { tally.count(.registrationsOver) } else { try collect(call) }
    }

    /// Nil if it is another app's or activity's than is looked at.
    private func call(
        for registration: Registration,
        app: Int,
        in record: UnsafeRawBufferPointer
    ) -> StoreCall<[UInt8]>? {
        let name = scope.apps[app].bundleIdentifier
        guard scope.isLookedAt(app: name) else { return nil }
        func token(_ text: TextRange) -> TokenRegistration<[UInt8]> {
            TokenRegistration(
                token: text.bytes(in: record),
                environment: registration.environment,
                registeredAtMilliseconds: registration.registeredAtMilliseconds
            )
        }
        func digests(of audiences: ByteRange, count: Int) -> [UInt8] {
            [UInt8](unsafeUninitializedCapacity: count * AudienceList.digestBytes) { room, written in
                let room = UnsafeMutableRawBufferPointer(room)
                written = Registration.writeDigests(of: audiences, in: record, into: room)
            }
        }
        func call(
            _ kind: StoreSubjectKind,
            _ text: TextRange,
            _ operation: StoreCall<[UInt8]>.Operation
        ) -> StoreCall<[UInt8]> {
            let subject = StoreSubject(app: Array(name.utf8), kind: kind, identifier: text.bytes(in: record))
            return StoreCall(tag: 0, subject: subject, operation: operation)
        }
        switch registration.kind {
        case .activity(let activity):
            guard scope.isLookedAt(activity.activity.bytes(in: record)) else { return nil }
            return call(
                .activity,
                activity.activity,
                .register(
                    token(activity.token),
                    frequentUpdates: activity.frequentUpdates,
                    shows: activity.shows,
                    source: .readAgain,
                    audiences: digests(of: activity.audiences, count: activity.audienceCount)
                )
            )
        case .pushToStart(let start):
            guard scope.onlyActivity == nil else { return nil }
            let type = start.attributesType.bytes(in: record)
            return call(
                .device,
                start.device,
                .registerDevice(
                    attributesType: type,
                    token(start.token),
                    .first(
                        audiences: digests(of: start.audiences, count: start.audienceCount),
                        takesChannels: start.takesChannels
                    ),
                    isCarried: false
                )
            )
        }
    }

    /// A tombstone names an activity or a device by its key, and no app.
    private mutating func unregister(_ key: UnsafeRawBufferPointer?, recordMilliseconds: Int64) throws {
        guard let key, (1...Limits.identifierBytes).contains(key.count) else {
            return tally.count(.registrationsInvalid)
        }
        let identifier = Array(key)
        guard scope.isLookedAt(identifier) else { return }
        for app in scope.apps where scope.isLookedAt(app: app.bundleIdentifier) {
            for kind in [StoreSubjectKind.activity, .device] {
                let subject = StoreSubject(app: Array(app.bundleIdentifier.utf8), kind: kind, identifier: identifier)
                let time = max(0, recordMilliseconds)
                try collect(StoreCall(tag: 0, subject: subject, operation: .unregister(atMilliseconds: time)))
            }
        }
        tally.count(.unregistered)
    }

    private mutating func collect(_ call: StoreCall<[UInt8]>) throws {
        let name = call.subject.app + [call.subject.kind.rawValue] + call.subject.identifier
        if calls.count == Self.batch || subjects.contains(name) { try flush() }
        calls.append(call)
        subjects.insert(name)
    }

    /// Makes the calls that were collected.
    mutating func flush() throws {
        defer {
            calls.removeAll(keepingCapacity: true)
            subjects.removeAll(keepingCapacity: true)
        }
        guard let store else {
            for call in calls { remember(call) }
            return
        }
        waitForTurn(writing: calls.count)
        if calls.isEmpty { return }
        for (call, reply) in zip(calls, try answers(to: calls, store)) where !call.operation.isUnregistration {
            tally.count(reply.verdict == .stale ? .registrationsStale : .registrationsWritten)
            if reply.heldCommand != nil { tally.count(.heldWithToken) }
        }
    }

    /// The store's replies, when the audiences that they name know.
    ///
    /// In a reply that names audiences what is held is missing, and an admission waits for them: these calls are made once more.
    private mutating func answers(
        to calls: [StoreCall<[UInt8]>],
        _ store: BlockingStore
    ) throws -> [StoreReply<[UInt8]>] {
        var replies = try store.perform(calls, until: isOver)
        // The reply to many at a time may have had no room for what is held.
        for index in replies.indices where replies[index].verdict == .full {
            replies[index] = try store.perform([calls[index]], until: isOver)[0]
        }
        guard !replies.contains(where: { $0.verdict == .full }) else {
            throw RedisError(
                .busy,
                "an activity has left more audiences than may have yet to know of it; try again later"
            )
        }
        let changes = zip(calls, replies).map { RebuiltMembership($0, $1) }
        let known = changes.compactMap(\.self)
        guard !known.isEmpty else { return replies }
        _ = try store.perform(known.flatMap(\.entries), until: isOver)
        _ = try store.perform(known.compactMap(\.confirmation), until: isOver)
        for change in known {
            tally.count(.membersJoined, change.joinCount)
            tally.count(.membersLeft, change.leaveCount)
        }
        let again = calls.indices.filter { index in
            changes[index]?.confirmation != nil && [.registered, .leaves].contains(replies[index].verdict)
        }
        for (index, reply) in zip(again, try store.perform(again.map { calls[$0] }, until: isOver)) {
            replies[index] = reply
        }
        return replies
    }

    private mutating func remember(_ call: StoreCall<[UInt8]>) {
        if !call.operation.isUnregistration { tally.count(.registrationsWritten) }
        if let member = JoiningMember(call.operation) { tally.count(.membersJoined, member.audiences.count) }
        guard call.subject.kind == .activity else { return }
        let activity = ActivityKey.stored(app: call.subject.app, activity: call.subject.identifier)
        guard let known = registeredAtMilliseconds[activity] else { return }
        switch call.operation {
        case .register(let token, _, _, _, _):
            registeredAtMilliseconds[activity] = max(token.registeredAtMilliseconds, known ?? 0)
        case .unregister(let milliseconds) where known.map({ $0 <= milliseconds }) ?? false:
            registeredAtMilliseconds[activity] = .some(nil)
        default: break
        }
    }

    mutating func waitForTurn(writing count: Int) {
        defer { written += count }
        while !isOver() {
            let elapsed = Double(Clock.milliseconds - beganMilliseconds) / 1_000
            let seconds = rate.secondsUntil(another: written, elapsedSeconds: elapsed)
            if seconds == 0 { return }
            rate.sleep(seconds: seconds)
        }
    }

    mutating func count(_ count: RebuildTally.Count, _ number: Int = 1) { tally.count(count, number) }

    // MARK: - Newest states

    /// Takes the newest commands of some activities and audiences, as far as Redis does not know them: a version that it knows may be waiting there, unsent.
    mutating func take(_ entries: some Collection<(key: [UInt8], value: ReplayTable.Entry)>) throws {
        try take(ofAudiences: entries.filter(\.value.isOfAudience))
        try take(ofActivities: entries.filter { !$0.value.isOfAudience })
    }

    private mutating func take(ofActivities entries: [(key: [UInt8], value: ReplayTable.Entry)]) throws {
        var states: [(state: RebuiltState, known: ActivityInspection, activity: [UInt8])] = []
        for ((activity, entry), value) in zip(entries, try queries.values(entries.map(\.key))) {
            if entry.start != nil { tally.count(.startsPassedOver) }
            guard let candidate = entry.state else { continue }
            let known = try ActivityInspection(value: value)
            if candidate.isUnread {
                tally.count(.statesUnread)
            } else if candidate.value.isEmpty {
                tally.count(.statesNotLookedAt)
            } else if let newest = known.newest?.version, newest >= candidate.version {
                tally.count(.statesKnown)
            } else if let state = RebuiltState(candidate, activity, app: entry.app, scope: scope) {
                states.append((state, known, activity))
            } else {
                tally.count(.statesTooOld)
            }
        }
        guard let store else { return try forecast(states) }
        waitForTurn(writing: states.count)
        if !states.isEmpty { try admit(states.map(\.state), store) }
    }

    /// What Redis would answer.
    private mutating func forecast(
        _ states: [(state: RebuiltState, known: ActivityInspection, activity: [UInt8])]
    ) throws {
        guard let first = states.first else { return }
        let milliseconds = try queries.serverTimeMilliseconds(for: first.activity)
        for (state, known, activity) in states {
            guard case .admit(var admission) = state.admission.operation else { continue }
            if let registered = registeredAtMilliseconds[activity] ?? nil {
                // Which token it is makes no difference to what comes of the command.
                admission.registration = TokenRegistration(
                    token: [],
                    environment: .production,
                    registeredAtMilliseconds: registered
                )
            }
            tally.count(Self.count(of: ActivityState(known).verdict(on: admission, nowMilliseconds: milliseconds)))
        }
    }

    private mutating func admit(_ states: [RebuiltState], _ store: BlockingStore) throws {
        var next: [StoreCall<[UInt8]>] = []
        for (state, reply) in zip(states, try answers(to: states.map(\.admission), store)) {
            let count = Self.count(of: reply.verdict)
            if count == .statesWritten { next.append(state.settlement) }
            if count == .statesHeld { next.append(state.holding) }
            tally.count(count)
        }
        // An end takes its activity out of its audiences.
        if !next.isEmpty { _ = try answers(to: next, store) }
    }

    private static func count(of verdict: StoreVerdict) -> RebuildTally.Count {
        switch verdict {
        // It waits for its pace only.
        case .send, .wait: .statesWritten
        case .noToken: .statesHeld
        case .expired, .tooOld: .statesTooOld
        default: .statesKnown
        }
    }
}

extension StoreCall<[UInt8]>.Operation {
    fileprivate var isUnregistration: Bool { if case .unregister = self { true } else { false } }
}
